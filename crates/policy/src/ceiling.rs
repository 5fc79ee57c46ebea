//! Rungs, or batch sizes, that failed: closed for a time, and while the memory is that of the failure.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::counts::{Moment, is_well_above};

/// Steps without a failure after which a rung has proven itself: what fails then comes from elsewhere.
pub(crate) const PROVEN: u32 = 20;

/// Failures in a row of a rung that had proven itself for which its time is the first.
const TRUST: u32 = 2;

/// More failures than this at once are merged.
const MOST_CLOSED: usize = 8;

/// The rungs that are closed; all above a closed one are closed too.
///
/// A rung opens when its time is over, or when the budget rises well above the one at which it failed.
/// The time doubles each time that a rung fails again within 20 steps in use: what fails for good is tried ever more
/// seldom.
/// A rung that has run for longer since it opened has proven itself: what fails it then comes from elsewhere, and closes
/// it as if for the first time; and because such things come in clusters, so do the next two failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ceiling {
    /// The latest failure last.
    closed: Vec<Closed>,
    /// The latest failure, open or not.
    last: Closed,
    /// How many closings in a row count; the time doubles from the second on.
    closings: u32,
    /// Failures in a row that are forgiven.
    trust: u32,
    /// Steps since the latest failure at its rung or above, while all are open; at most `PROVEN`.
    clean: u32,
}

/// A rung that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Closed {
    rung: usize,
    /// The budget at which it failed.
    budget: Bytes,
    at: u64,
    opens_at: u64,
}

impl Closed {
    fn holds(&self, moment: Moment) -> bool {
        moment.now < self.opens_at && !is_well_above(moment.budget, self.budget)
    }

    fn implies(&self, other: &Self) -> bool {
        self.rung <= other.rung && other.opens_at <= self.opens_at && other.budget <= self.budget
    }

    fn merged(self, other: Self) -> Self {
        Self {
            rung: self.rung.min(other.rung),
            budget: self.budget.max(other.budget),
            at: self.at.max(other.at),
            opens_at: self.opens_at.max(other.opens_at),
        }
    }
}

impl Ceiling {
    /// Returns the lowest rung that is closed.
    pub(crate) fn at(&self, moment: Moment) -> Option<usize> {
        self.closed.iter().filter(|it| it.holds(moment)).map(|it| it.rung).min()
    }

    /// Closes `rung` for `first_time` steps, doubled for each closing in a row before this one.
    pub(crate) fn close(&mut self, rung: usize, moment: Moment, first_time: u64) {
        let Moment { now, budget } = moment;
        self.count(moment);
        let opens_at = now.saturating_add(wait(self.closings, first_time));
        self.clean = 0;
        self.push(Closed { rung, budget, at: now, opens_at });
    }

    /// Closes what is below too, for as long as the rest, or for `first_time` steps when nothing is closed.
    pub(crate) fn lower(&mut self, rung: usize, moment: Moment, first_time: u64) {
        let longest = self.closed.iter().filter(|it| it.holds(moment)).max_by_key(|it| it.opens_at);
        match longest.map(|it| it.opens_at) {
            Some(opens_at) => self.push(Closed { rung, budget: moment.budget, at: moment.now, opens_at }),
            None => self.close(rung, moment, first_time),
        }
    }

    /// Notes a step without a failure at this rung.
    pub(crate) fn on_clean_step(&mut self, rung: usize, moment: Moment) {
        if self.last.rung <= rung && self.at(moment).is_none() {
            self.clean = PROVEN.min(self.clean + 1);
        }
    }

    /// Hears of the budget: one that is found lower before the next step was so when this one failed.
    pub(crate) fn on_budget(&mut self, moment: Moment) {
        let recent = self.closed.last_mut().filter(|it| moment.now <= it.at);
        if let Some(closed) = recent {
            closed.budget = closed.budget.min(moment.budget);
            self.last = *closed;
        }
    }

    /// Counts one more closing.
    fn count(&mut self, moment: Moment) {
        let has_proven = 0 < self.closings && PROVEN <= self.clean;
        (self.closings, self.trust) = if has_proven {
            (1, TRUST)
        } else if is_well_above(moment.budget, self.last.budget) {
            (1, 0)
        } else if 0 < self.trust {
            (1, self.trust - 1)
        } else {
            (self.closings.saturating_add(1), 0)
        };
    }

    fn push(&mut self, latest: Closed) {
        // What the latest one implies stays all the same: a budget that has fallen may yet explain it.
        let settled: Vec<_> = self.closed.iter().copied().filter(|it| it.at < latest.at).collect();
        let is_implied = |it: &Closed| settled.iter().any(|other| other != it && other.implies(it));
        self.closed.retain(|it| latest.at < it.opens_at && !is_implied(it));
        if let [first, second, ..] = self.closed[..]
            && MOST_CLOSED <= self.closed.len()
        {
            self.closed.remove(0);
            self.closed[0] = first.merged(second);
        }
        self.closed.push(latest);
        self.last = latest;
    }
}

/// Returns how long the last of so many closings in a row lasts.
fn wait(closings: u32, first_time: u64) -> u64 {
    first_time.saturating_mul(1u64.checked_shl(closings.saturating_sub(1)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Bytes = Bytes(1000);

    fn at(now: u64) -> Moment {
        Moment { now, budget: BUDGET }
    }

    fn with(now: u64, budget: u64) -> Moment {
        Moment { now, budget: Bytes(budget) }
    }

    #[test]
    fn each_closing_in_a_row_lasts_twice_as_long_as_the_one_before() {
        let mut ceiling = Ceiling::default();
        assert_eq!(ceiling.at(at(0)), None);
        ceiling.close(7, at(10), 200);
        assert_eq!((ceiling.at(at(209)), ceiling.at(at(210))), (Some(7), None));
        ceiling.close(9, at(210), 200);
        assert_eq!((ceiling.at(at(609)), ceiling.at(at(610))), (Some(9), None));
        for _ in 0..100 {
            ceiling.close(9, at(610), 200);
        }
        assert_eq!(ceiling.at(at(u64::MAX - 1)), Some(9), "the time saturates");
    }

    #[test]
    fn a_rung_that_has_proven_itself_is_closed_as_if_for_the_first_time_and_twice_more() {
        let mut ceiling = Ceiling::default();
        let mut close = |now, n_clean: u64, rung| {
            (0..n_clean).for_each(|_| ceiling.on_clean_step(rung, at(now)));
            ceiling.close(7, at(now), 200);
            ceiling.last.opens_at - now
        };
        assert_eq!([close(0, 1000, 7), close(1000, 19, 7), close(2000, 1000, 6)], [200, 400, 800]);
        assert_eq!([close(4000, 20, 7), close(5000, 0, 7), close(6000, 0, 7), close(7000, 0, 7)], [200, 200, 200, 400]);
    }

    #[test]
    fn a_rung_opens_when_the_budget_is_well_above_that_of_its_failure_and_then_begins_anew() {
        let mut ceiling = Ceiling::default();
        ceiling.close(7, at(0), 200);
        ceiling.close(7, at(0), 200);
        assert_eq!((ceiling.at(with(1, 1015)), ceiling.at(with(1, 1016))), (Some(7), None));
        assert_eq!((ceiling.at(with(1, 500)), ceiling.at(with(399, 1000))), (Some(7), Some(7)), "not for good");
        ceiling.close(8, with(20, 1100), 200);
        assert_eq!((ceiling.at(with(219, 1100)), ceiling.at(with(220, 1100))), (Some(8), None));
    }

    #[test]
    fn a_budget_that_falls_right_after_the_failure_is_the_one_at_which_it_failed() {
        let mut ceiling = Ceiling::default();
        ceiling.close(7, at(10), 200);
        ceiling.on_budget(with(10, 900));
        ceiling.on_budget(with(11, 800));
        assert_eq!((ceiling.at(with(12, 900)), ceiling.at(at(12))), (Some(7), None));
    }

    #[test]
    fn what_failed_at_less_opens_first_and_what_failed_at_more_stays() {
        let mut ceiling = Ceiling::default();
        ceiling.close(7, at(0), 200);
        ceiling.close(3, with(10, 700), 200);
        assert_eq!((ceiling.at(with(11, 700)), ceiling.at(with(11, 1000))), (Some(3), Some(7)));
    }

    #[test]
    fn however_many_fail_few_are_kept_and_none_opens_early() {
        let mut ceiling = Ceiling::default();
        for (rung, i) in (0..100).enumerate() {
            ceiling.close(rung, with(i, 100_000 - 100 * i), 1000);
        }
        assert!(ceiling.closed.len() <= MOST_CLOSED, "{}", ceiling.closed.len());
        assert_eq!(ceiling.at(with(999, 100_000)), Some(0));
    }

    #[test]
    fn lowering_a_ceiling_does_not_prolong_it() {
        let mut ceiling = Ceiling::default();
        ceiling.lower(7, at(0), 200);
        ceiling.lower(5, at(100), 200);
        ceiling.lower(6, at(150), 200);
        assert_eq!((ceiling.at(at(199)), ceiling.at(at(200))), (Some(5), None));
    }

    #[test]
    fn a_closed_rung_stays_closed_for_its_time_when_a_higher_one_fails() {
        let mut ceiling = Ceiling::default();
        ceiling.close(5, at(0), 200);
        ceiling.close(9, at(1), 200);
        assert_eq!((ceiling.at(at(199)), ceiling.at(at(200)), ceiling.at(at(401))), (Some(5), Some(9), None));
    }
}
