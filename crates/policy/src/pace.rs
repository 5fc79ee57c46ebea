//! When a policy may grow again.

use plimsoll_types::{BrakeReason, Bytes, Decision, KeepReason, MoveReason};
use serde::{Deserialize, Serialize};

use crate::ceiling::PROVEN;
use crate::counts::{Moment, is_well_above, keep};
use crate::lapsing::Lapsing;

/// Steps that a growth must last, or else it was undone.
const LASTS: u64 = 200;

/// The most steps that memory and sizes must stay as they are before the next growth.
///
/// A run is to be back 200 steps after a disturbance, the steps on its way included.
const MOST_PATIENCE: u64 = 140;

/// Steps that sizes must stay as they are where bursts of memory undo what had lasted: until all have forgotten one.
///
/// A bound forgets within some 96 readings, each shape at its own time, and a closed size opens after 180 steps: then one
/// change leads all the way back, and little more than five ways down and up are within a thousand steps.
const FORGOTTEN: u64 = 193;

/// Steps for which a burst may last: only then the bounds know all of it, and one change down is enough.
const BURST: u64 = 3;

/// The most steps of a cooldown on the way back: long enough for every edge to be read, and for what came meanwhile to be
/// forgotten by all once one has.
const LONGEST_COOLDOWN: u64 = 40;

/// By how many powers of two each growth that was undone prolongs the patience.
const PATIENCE_SHIFT: u32 = 2;

/// What a pace is configured with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceConfig {
    pub(crate) warm_up_steps: u64,
    pub(crate) cooldown_steps: u64,
    pub(crate) max_reversals: u32,
}

/// When a policy may grow again, and what it remembers for that.
///
/// A growth that was undone within 200 steps makes the next one wait until memory and sizes have stayed as they are for
/// the cooldown times four, and four times as long for each other one, up to 140 steps.
/// Sizes that had lasted for 20 steps and fall although the memory is the same as before tell of a burst: of something else
/// in the process that took memory for a moment, and will again; then the wait is 193 steps, however often growth is undone.
/// As long as there is one of these to remember, each cooldown is as long too, up to 40 steps, so that the way back takes
/// few changes.
/// A growth that was undone sooner although the memory was the same as before is a reversal: the bounds were wrong, and after
/// `max_reversals` of them nothing grows.
/// A bound that is above the budget although that has not fallen is put down to a burst too: sizes fall once it is over,
/// 3 steps later, and the guard divides the steps until then.
/// How much equal steps differ is no matter of the pace: the bounds hold it, as long as it lasts.
/// All three counts lapse, by one in a thousand steps without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pace {
    adjustments: u32,
    cooldown_until: u64,
    /// The budget that was last heard of.
    budget: Bytes,
    /// The budget that counts as unchanged, and since when it and the sizes are.
    settled: Bytes,
    settled_at: u64,
    stands: Option<Stands>,
    undone: Lapsing,
    reversals: Lapsing,
    bursts: Lapsing,
    /// When a fall counted as a reversal or a burst, which the budget may yet explain.
    blamed: Option<Blamed>,
    announced: bool,
    /// Since when a bound is above the budget.
    above_since: Option<u64>,
}

/// A fall, and the budget at which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Blamed {
    at: u64,
    budget: Bytes,
    blame: Blame,
}

/// What a fall is put down to that no budget explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Blame {
    /// The growth before it.
    Reversal,
    /// Something else in the process.
    Burst,
}

/// Since when the knobs, or sizes, are as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stands {
    at: u64,
    /// The budget at which they became so.
    budget: Bytes,
    has_grown: bool,
}

impl Stands {
    /// Whether a bound is above a budget because that has fallen since.
    fn is_explained(self, upper: Bytes, budget: Bytes) -> bool {
        upper <= self.budget || is_well_above(self.budget, budget)
    }
}

impl Default for Pace {
    /// Nothing is known of the budget before the first step: whatever fails there fails for a time only.
    fn default() -> Self {
        Self {
            adjustments: 0,
            cooldown_until: 0,
            budget: Bytes::MAX,
            settled: Bytes::MAX,
            settled_at: 0,
            stands: None,
            undone: Lapsing::default(),
            reversals: Lapsing::default(),
            bursts: Lapsing::default(),
            blamed: None,
            announced: false,
            above_since: None,
        }
    }
}

impl Pace {
    /// Hears of the highest bound that is above the budget, if any is, and returns how many more steps a burst may last
    /// that raised it: none, where the budget has fallen.
    pub(crate) fn burst_left(&mut self, above: Option<Bytes>, now: u64) -> Option<u64> {
        let since = above.map(|_| self.above_since.unwrap_or(now));
        self.above_since = since;
        let is_raised = |it: Stands| above.is_some_and(|upper| !it.is_explained(upper, self.budget));
        let until = since?.saturating_add(BURST);
        (self.stands.is_some_and(is_raised) && now < until).then(|| until - now)
    }

    /// Returns how many times the knobs, or the sizes, have changed.
    pub(crate) fn adjustments(&self) -> u32 {
        self.adjustments
    }

    /// Returns the moment after so many steps, with the budget that was last heard of.
    pub(crate) fn moment(&self, now: u64) -> Moment {
        Moment { now, budget: self.budget }
    }

    /// Hears of the budget.
    pub(crate) fn on_budget(&mut self, moment: Moment) {
        let Moment { now, budget } = moment;
        self.budget = budget;
        let has_fallen = is_well_above(self.settled, budget);
        let explains = |it: &mut Blamed| has_fallen && now <= it.at && budget < it.budget;
        if let Some(Blamed { blame, .. }) = self.blamed.take_if(explains) {
            self.count_of(blame).take_back();
        }
        if has_fallen || is_well_above(budget, self.settled) {
            (self.settled, self.settled_at) = (budget, now);
        }
    }

    /// Notes that the knobs, or sizes, have changed.
    pub(crate) fn on_change(&mut self, reason: MoveReason, now: u64, config: PaceConfig) {
        match reason {
            MoveReason::Certified { .. } => {
                self.stands = Some(Stands { at: now, budget: self.budget, has_grown: true });
            }
            _ => self.on_fall(reason, now),
        }
        self.adjustments = self.adjustments.saturating_add(1);
        self.above_since = None;
        // On the way back a rung more or less is not worth a change.
        let cooldown = config.cooldown_steps.max(self.patience(now, config).min(LONGEST_COOLDOWN));
        self.cooldown_until = now.saturating_add(cooldown);
    }

    /// Lets nothing grow before the cooldown is over.
    pub(crate) fn cool_down(&mut self, now: u64, config: PaceConfig) {
        self.cooldown_until = self.cooldown_until.max(now.saturating_add(config.cooldown_steps));
    }

    /// Returns how many more steps the cooldown lasts.
    pub(crate) fn cooldown_left(&self, now: u64) -> u64 {
        self.cooldown_until.saturating_sub(now)
    }

    /// Returns why nothing may grow now, if nothing may.
    pub(crate) fn hold(&mut self, now: u64, config: PaceConfig) -> Option<Decision> {
        let count = self.reversals.at(now);
        if config.max_reversals <= count {
            let announced = std::mem::replace(&mut self.announced, true);
            let brake = Decision::Brake { reason: BrakeReason::Reversals { count } };
            return Some(if announced { keep(KeepReason::Braked) } else { brake });
        }
        self.announced = false;
        if now < config.warm_up_steps {
            return Some(keep(KeepReason::WarmUp { steps_left: config.warm_up_steps - now }));
        }
        let earliest = self.cooldown_until.max(self.settled_at.saturating_add(self.patience(now, config)));
        (now < earliest).then(|| keep(KeepReason::Cooldown { steps_left: earliest - now }))
    }

    /// Returns for how many steps memory and sizes must have stayed as they are.
    fn patience(&self, now: u64, config: PaceConfig) -> u64 {
        let undone = self.undone.at(now);
        if 0 < self.bursts.at(now) {
            return FORGOTTEN;
        }
        if undone == 0 {
            return 0;
        }
        let times = 1u64.checked_shl(undone.saturating_mul(PATIENCE_SHIFT)).unwrap_or(u64::MAX);
        config.cooldown_steps.max(1).saturating_mul(times).min(MOST_PATIENCE)
    }

    /// Notes a fall: which growth it undoes, and what it is put down to where no smaller budget explains it. To a burst what
    /// had lasted, to the bounds what had just grown, and to nothing new what follows another fall at once.
    fn on_fall(&mut self, reason: MoveReason, now: u64) {
        self.settled_at = now;
        let stands = Stands { at: now, budget: self.budget, has_grown: false };
        let Some(stood) = self.stands.replace(stands) else { return };
        let steps = now.saturating_sub(stood.at);
        if stood.has_grown && steps < LASTS {
            self.undone.add(now);
        }
        let upper = if let MoveReason::BudgetFell { upper, .. } = reason { upper } else { Bytes::MAX };
        if stood.is_explained(upper, self.budget) {
            return;
        }
        let blame = if u64::from(PROVEN) <= steps {
            Blame::Burst
        } else if stood.has_grown {
            Blame::Reversal
        } else {
            return;
        };
        self.count_of(blame).add(now);
        self.blamed = Some(Blamed { at: now, budget: self.budget, blame });
    }

    fn count_of(&mut self, blame: Blame) -> &mut Lapsing {
        match blame {
            Blame::Reversal => &mut self.reversals,
            Blame::Burst => &mut self.bursts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: PaceConfig = PaceConfig { warm_up_steps: 0, cooldown_steps: 3, max_reversals: 2 };

    /// A growth at `at` that falls 10 steps later, with the budgets at both.
    fn undo(pace: &mut Pace, at: u64, (grown, fallen): (u64, u64)) {
        pace.on_budget(Moment { now: at, budget: Bytes(grown) });
        let limit = Bytes(985);
        pace.on_change(MoveReason::Certified { upper: Bytes(980), limit }, at, CONFIG);
        pace.on_budget(Moment { now: at + 10, budget: Bytes(fallen) });
        let upper = Bytes(1009);
        pace.on_change(MoveReason::BudgetFell { upper, budget: Bytes(fallen) }, at + 10, CONFIG);
    }

    fn steps_left(pace: &mut Pace, now: u64) -> Option<u64> {
        match pace.hold(now, CONFIG) {
            Some(Decision::Keep { reason: KeepReason::Cooldown { steps_left } }) => Some(steps_left),
            _ => None,
        }
    }

    #[test]
    fn each_growth_that_is_undone_makes_the_next_wait_four_times_as_long_up_to_140_steps() {
        let mut pace = Pace::default();
        let waits = [0, 200, 400, 600].map(|at| {
            undo(&mut pace, at, (1000, 900));
            steps_left(&mut pace, at + 10)
        });
        assert_eq!(waits, [Some(12), Some(48), Some(140), Some(140)]);
        assert_eq!(steps_left(&mut pace, 610 + 4000), None, "forgotten");
    }

    #[test]
    fn only_growths_that_were_undone_at_the_same_budget_brake() {
        let mut pace = Pace::default();
        (0..50).for_each(|i| undo(&mut pace, 20 * i, (1000, 900)));
        assert_eq!(pace.reversals.at(1000), 0);
        undo(&mut pace, 1000, (1000, 1000));
        undo(&mut pace, 1020, (1000, 1000));
        let reason = BrakeReason::Reversals { count: 2 };
        assert_eq!(pace.hold(1030, CONFIG), Some(Decision::Brake { reason }));
        assert_eq!(pace.hold(2029, CONFIG), Some(keep(KeepReason::Braked)));
        assert_ne!(pace.hold(2030, CONFIG), Some(keep(KeepReason::Braked)));
    }

    #[test]
    fn a_budget_that_is_found_lower_before_the_next_step_takes_a_reversal_back() {
        let mut pace = Pace::default();
        undo(&mut pace, 0, (1000, 1000));
        pace.on_budget(Moment { now: 10, budget: Bytes(700) });
        pace.on_budget(Moment { now: 10, budget: Bytes(500) });
        assert_eq!(pace.reversals.at(10), 0);
        undo(&mut pace, 20, (1000, 1000));
        pace.on_budget(Moment { now: 31, budget: Bytes(700) });
        assert_eq!(pace.reversals.at(31), 1, "too late");
    }

    #[test]
    fn a_budget_that_rises_and_falls_back_before_the_next_step_explains_no_reversal() {
        let mut pace = Pace::default();
        undo(&mut pace, 0, (1000, 1000));
        pace.on_budget(Moment { now: 10, budget: Bytes(2000) });
        pace.on_budget(Moment { now: 10, budget: Bytes(1010) });
        assert_eq!(pace.reversals.at(10), 1);
        pace.on_budget(Moment { now: 10, budget: Bytes(900) });
        assert_eq!(pace.reversals.at(10), 0);
    }

    #[test]
    fn a_bound_that_no_budget_explains_waits_for_three_steps_until_a_burst_is_over() {
        let mut pace = Pace::default();
        let moment = |now, budget| Moment { now, budget: Bytes(budget) };
        pace.on_budget(moment(0, 1000));
        assert_eq!(pace.burst_left(Some(Bytes(1001)), 0), None, "nothing stands yet");
        pace.on_change(MoveReason::Certified { upper: Bytes(980), limit: Bytes(985) }, 0, CONFIG);
        let above = Some(Bytes(1001));
        assert_eq!([10, 11, 12, 13].map(|now| pace.burst_left(above, now)), [Some(3), Some(2), Some(1), None]);
        assert_eq!((pace.burst_left(None, 14), pace.burst_left(above, 15)), (None, Some(3)));
        pace.on_budget(moment(16, 990));
        assert_eq!(pace.burst_left(Some(Bytes(995)), 16), None, "it fitted before");
        pace.on_budget(moment(17, 900));
        assert_eq!(pace.burst_left(above, 17), None);
    }

    #[test]
    fn what_falls_after_20_steps_at_the_same_budget_falls_to_a_burst_whether_it_had_grown_or_not() {
        let blamed = |steps: u64, fallen: u64| {
            let mut pace = Pace::default();
            let moment = |now, budget| Moment { now, budget: Bytes(budget) };
            pace.on_budget(moment(0, 1000));
            pace.on_change(MoveReason::Certified { upper: Bytes(980), limit: Bytes(985) }, 0, CONFIG);
            pace.on_budget(moment(500, fallen));
            let upper = Bytes(990);
            pace.on_change(MoveReason::BudgetFell { upper, budget: Bytes(fallen) }, 500, CONFIG);
            pace.on_change(MoveReason::OutOfMemory { count: 1 }, 500 + steps, CONFIG);
            (pace.bursts.at(500 + steps), pace.reversals.at(500 + steps), steps_left(&mut pace, 500 + steps))
        };
        // The fall before leaves nothing to remember: a smaller budget explains it, however little that is smaller.
        assert_eq!([700, 989].map(|budget| blamed(19, budget)), [(0, 0, Some(3)); 2], "one fall with it");
        assert_eq!([700, 989].map(|budget| blamed(20, budget)), [(1, 0, Some(193)); 2]);
    }

    #[test]
    fn a_burst_lets_what_it_lowers_wait_until_it_is_forgotten_and_a_budget_found_lower_takes_it_back() {
        let at = |now, budget| Moment { now, budget: Bytes(budget) };
        let grow = |pace: &mut Pace, now| {
            pace.on_budget(at(now, 1000));
            let (upper, limit) = (Bytes(980), Bytes(985));
            pace.on_change(MoveReason::Certified { upper, limit }, now, CONFIG);
        };
        let fall = |pace: &mut Pace, now| pace.on_change(MoveReason::OutOfMemory { count: 1 }, now, CONFIG);
        let mut pace = Pace::default();
        fall(&mut pace, 5);
        assert_eq!(steps_left(&mut pace, 5), Some(3), "nothing had grown");
        grow(&mut pace, 10);
        fall(&mut pace, 210);
        assert_eq!((steps_left(&mut pace, 210), pace.reversals.at(210)), (Some(193), 0));
        assert_eq!(steps_left(&mut pace, 403), None);
        grow(&mut pace, 403);
        assert_eq!(steps_left(&mut pace, 403), Some(40), "the way back takes few changes");
        assert_eq!(steps_left(&mut pace, 1210), None, "a thousand steps later nobody remembers");
        fall(&mut pace, 1210);
        assert_eq!(steps_left(&mut pace, 1210), Some(193));
        pace.on_budget(at(1210, 700));
        assert_eq!(steps_left(&mut pace, 1210), Some(40), "a co-tenant has come");
    }
}
