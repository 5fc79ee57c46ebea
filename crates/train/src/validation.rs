//! Which part of a large validation set is measured.

use plimsoll_types::{Fraction, ItemsMeasured};
use serde::{Deserialize, Serialize};

/// Items of a first piece of a large set: what they take says how many more may be measured.
const FIRST: u64 = 64;
/// Items up to which a set is small: its first validation has all of them.
const SMALL: u64 = 256;
/// A small set that takes no longer than this many seconds is always measured whole, so that the clock decides nothing.
const SHORT: f64 = 10.0;
/// Items that are measured where the clock must not decide.
const WITHOUT_CLOCK: u64 = 512;
/// What of its share a part is chosen for: the clock of a few steps is not that of a whole run, and what a first piece
/// took, before anything else was read or computed, is less than the same takes beside steps.
const SPARE: f64 = 0.6;
/// Items that are always measured.
const LEAST: u64 = 16;

/// How many items of a validation set are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// All of them.
    #[default]
    All,
    /// So many at most.
    AtMost(u64),
    /// All of a small set, and a first piece of a large one, of which nothing is known yet.
    FirstPiece,
}

impl Amount {
    /// Returns how many of `n` items are measured.
    pub fn of(self, n: usize) -> usize {
        let most = match self {
            Self::All => u64::MAX,
            Self::AtMost(most) => most.max(1),
            Self::FirstPiece if u64::try_from(n).is_ok_and(|n| n <= SMALL) => u64::MAX,
            Self::FirstPiece => FIRST,
        };
        usize::try_from(most).map_or(n, |most| most.min(n))
    }
}

/// What a run knows of its validations, kept in its checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidationState {
    /// How many items are measured, and for which share of the run that was chosen; `None` until it is.
    chosen: Option<Chosen>,
    /// What was measured last, and how long it took in seconds.
    last: Option<(ItemsMeasured, f64)>,
    /// Wall time of all validations in seconds.
    seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Chosen {
    share: f64,
    /// `train.validate_every`; unknown in a checkpoint of an earlier version.
    #[serde(default)]
    every: Option<u64>,
    /// All of them where nothing is said.
    n: Option<u64>,
    /// Validations since: the first one tells what they take when nothing is done for the first time.
    n_since: u32,
}

/// What the clock says before a validation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What a step takes, once enough have been done.
    pub(crate) step: Option<f64>,
    /// Steps between two validations as they are set.
    pub(crate) every: u64,
    /// Steps between two validations of this run.
    pub(crate) steps_between: u64,
}

impl ValidationState {
    /// Learns what a validation took.
    pub(crate) fn note(&mut self, measured: Option<ItemsMeasured>, seconds: f64) {
        self.seconds += seconds;
        // A job that does not say has one item as it were.
        self.last = Some((measured.unwrap_or(ItemsMeasured { n: 1, of: 1 }), seconds));
        if let Some(chosen) = &mut self.chosen {
            chosen.n_since = chosen.n_since.saturating_add(1);
        }
    }

    /// Returns how many items the next validation has.
    ///
    /// It is chosen once, by what steps and a first piece of a validation took, or without the clock where the run is
    /// deterministic; and once more after the first that was chosen, where that took more than its share, or where twice as
    /// many and more would do: the first piece pays for what is done once, such as compiling kernels.
    pub(crate) fn amount(&mut self, share: Fraction, is_deterministic: bool, clock: Clock) -> Amount {
        let share = share.get();
        if 1.0 <= share {
            return Amount::All;
        }
        if is_deterministic {
            return Amount::AtMost(WITHOUT_CLOCK);
        }
        let before = self.chosen.filter(|it| it.is_for(share, clock.every));
        if let Some(chosen) = before.filter(|it| it.n_since != 1) {
            return chosen.amount();
        }
        let (Some((measured, seconds)), Some(step)) = (self.last, clock.step) else {
            return before.map_or(Amount::FirstPiece, Chosen::amount);
        };
        let whole_share = share / (1.0 - share) * step * clock.steps_between as f64;
        let n = affordable(measured, seconds, SPARE * whole_share);
        let many = |n: Option<u64>| n.unwrap_or(measured.of);
        let chosen = match before {
            Some(before) if seconds <= whole_share && many(n) < many(before.n).saturating_mul(2) => {
                Chosen { n_since: 2, ..before }
            }
            Some(_) => Chosen { share, every: Some(clock.every), n, n_since: 2 },
            None => Chosen { share, every: Some(clock.every), n, n_since: 0 },
        };
        self.chosen = Some(chosen);
        chosen.amount()
    }

    /// Says which setting is another than what the part was chosen for, which is then chosen anew.
    pub(crate) fn change(&self, share: Fraction, is_deterministic: bool, every: u64) -> Option<String> {
        let share = share.get();
        let chosen = self.chosen.filter(|it| !is_deterministic && share < 1.0 && !it.is_for(share, every))?;
        let was = |key: &str, now: String, was: String| format!("`train.{key}` is {now}, and was {was}");
        let what = match chosen.every.filter(|it| *it != every) {
            Some(it) => was("validate_every", every.to_string(), it.to_string()),
            None => was("validation_share", share.to_string(), chosen.share.to_string()),
        };
        Some(format!("{what}: the part of the validation set that is measured is chosen anew"))
    }

    /// Whether all items may be measured once more at the end of a run that took so long, because it fits the share.
    pub(crate) fn has_room_for_all(&self, share: Fraction, run_seconds: f64) -> bool {
        let Some((measured, _)) = self.last.filter(|(it, _)| it.n < it.of) else { return false };
        let all = self.expected(measured.of).unwrap_or(f64::INFINITY);
        self.seconds + all <= share.get() * (run_seconds + all)
    }

    /// Returns how many items may be measured once at the end of a run that took so long, whatever was measured before; `usual`
    /// are those of a validation, and the least.
    pub(crate) fn once(&self, usual: Amount, share: Fraction, run_seconds: f64) -> Amount {
        let (Amount::AtMost(usual), Some(item)) = (usual, self.expected(1)) else { return usual };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a cast saturates")]
        let n = (share.get() / (1.0 - share.get()) * run_seconds / item) as u64;
        Amount::AtMost(n.max(usual))
    }

    /// Returns what a validation of so many items is expected to take in seconds, once one was measured.
    pub(crate) fn expected(&self, n: u64) -> Option<f64> {
        self.last.map(|(measured, seconds)| seconds / measured.n.max(1) as f64 * n as f64)
    }

    /// Returns what the next validation is expected to take.
    pub(crate) fn expected_next(&self, amount: Amount) -> Option<f64> {
        let of = usize::try_from(self.last?.0.of).ok()?;
        self.expected(amount.of(of) as u64)
    }
}

impl Chosen {
    /// Whether it was chosen for these settings: exactly what was written.
    fn is_for(self, share: f64, every: u64) -> bool {
        self.share.to_bits() == share.to_bits() && self.every.is_none_or(|it| it == every)
    }

    fn amount(self) -> Amount {
        self.n.map_or(Amount::All, Amount::AtMost)
    }
}

/// Returns how many items can be measured in the time that is allowed; all where nothing is said.
fn affordable(measured: ItemsMeasured, seconds: f64, allowed: f64) -> Option<u64> {
    let all = seconds / measured.n.max(1) as f64 * measured.of as f64;
    if all <= allowed || (measured.of <= SMALL && all <= SHORT) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a cast saturates")]
    let n = (allowed / all * measured.of as f64) as u64;
    Some(n.max(LEAST.min(measured.of)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: u64, of: u64) -> ItemsMeasured {
        ItemsMeasured { n, of }
    }

    fn share(share: f64) -> Fraction {
        Fraction::try_new(share).unwrap()
    }

    const BEFORE: Clock = Clock { step: None, every: 100, steps_between: 100 };

    #[test]
    fn a_part_is_chosen_once_by_what_steps_and_a_first_piece_took() {
        let mut state = ValidationState::default();
        let first = state.amount(share(0.1), false, BEFORE).of(3400) as u64;
        assert_eq!(first, FIRST);
        // 20 ms for each of 3400 tiles, steps of 0.2 s.
        state.note(Some(of(first, 3400)), 0.02 * first as f64);
        let clock = Clock { step: Some(0.2), ..BEFORE };
        let Amount::AtMost(n) = state.amount(share(0.1), false, clock) else { panic!("{state:?}") };
        let taken = 0.02 * n as f64;
        let taken_share = taken / (taken + 20.0);
        assert!((0.05..0.1).contains(&taken_share), "{n} items take {taken_share}");
        // Slower steps change nothing any more, also after a resumption.
        let kept = serde_json::to_string(&state).unwrap();
        let mut resumed: ValidationState = serde_json::from_str(&kept).unwrap();
        for clock in [BEFORE, Clock { step: Some(2.0), ..BEFORE }] {
            assert_eq!(resumed.amount(share(0.1), false, clock), Amount::AtMost(n));
        }
        assert_eq!(resumed.amount(share(1.0), false, clock), Amount::All);
        assert!(resumed.amount(share(0.2), false, clock).of(3400) as u64 > 2 * n);
    }

    #[test]
    fn a_part_is_chosen_anew_for_other_settings() {
        let mut state = ValidationState::default();
        state.note(Some(of(64, 3400)), 0.32);
        let clock = Clock { step: Some(0.2), ..BEFORE };
        let n = |state: &mut ValidationState, own: f64, clock| state.amount(share(own), false, clock).of(3400);
        let first = n(&mut state, 0.1, clock);
        assert_eq!(state.change(share(0.1), false, 100), None);
        // Ten steps between two validations leave a tenth of the time that a hundred do.
        let (every, often) = (10, Clock { every: 10, steps_between: 10, ..clock });
        let anew = ": the part of the validation set that is measured is chosen anew";
        let told = format!("`train.validate_every` is 10, and was 100{anew}");
        assert_eq!(state.change(share(0.1), false, every), Some(told));
        let told = format!("`train.validation_share` is 0.2, and was 0.1{anew}");
        assert_eq!(state.change(share(0.2), false, 100), Some(told));
        assert!((state.change(share(0.1), true, every), state.change(share(1.0), false, every)) == (None, None));
        let fewer = n(&mut state, 0.1, often);
        assert!(fewer < first / 5, "{first} and then {fewer}");
        // A longer run is no other setting, and what an earlier version has written says nothing of it.
        assert_eq!(n(&mut state, 0.1, Clock { steps_between: 5, ..often }), fewer);
        let older = serde_json::to_string(&state).unwrap().replace(r#""every":10,"#, "");
        let mut older: ValidationState = serde_json::from_str(&older).unwrap();
        assert_eq!((older.change(share(0.1), false, 100), n(&mut older, 0.1, clock)), (None, fewer));
    }

    #[test]
    fn a_first_piece_that_paid_for_what_is_done_once_is_made_good() {
        let mut state = ValidationState::default();
        let clock = Clock { step: Some(0.2), ..BEFORE };
        let mut amounts = Vec::new();
        // 20 s of compiling, and 10 ms for each item.
        for once in [20.0, 0.0, 0.0, 0.0] {
            let n = state.amount(share(0.1), false, clock).of(3400) as u64;
            amounts.push(n);
            state.note(Some(of(n, 3400)), once + 0.01 * n as f64);
        }
        let taken = 0.01 * amounts[3] as f64;
        assert!(amounts[1] < FIRST && amounts[2] == amounts[3] && (1.2..2.0).contains(&taken), "{amounts:?}");
    }

    #[test]
    fn a_part_that_took_more_than_its_share_is_chosen_anew_once() {
        let mut state = ValidationState::default();
        let clock = Clock { step: Some(0.2), ..BEFORE };
        let mut amounts = Vec::new();
        // Beside steps an item takes three times as long as before the first.
        for seconds in [0.01, 0.03, 0.03, 0.03] {
            let n = state.amount(share(0.1), false, clock).of(3400) as u64;
            amounts.push(n);
            state.note(Some(of(n, 3400)), seconds * n as f64);
        }
        let shares = [1, 2, 3].map(|at| 0.03 * amounts[at] as f64).map(|taken| taken / (taken + 20.0));
        assert!(0.1 < shares[0] && shares[1] < 0.1 && amounts[2] == amounts[3], "{amounts:?} {shares:?}");
    }

    #[test]
    fn a_small_set_or_a_fast_one_is_measured_whole() {
        for (first, n, seconds) in [(256, 256, 9.0), (64, 3400, 0.001)] {
            let mut state = ValidationState::default();
            assert_eq!(state.amount(share(0.1), false, BEFORE).of(n), first);
            state.note(Some(of(first as u64, n as u64)), seconds);
            assert_eq!(
                state.amount(share(0.1), false, Clock { step: Some(0.2), every: 8, steps_between: 8 }),
                Amount::All
            );
        }
    }

    #[test]
    fn a_deterministic_run_never_asks_the_clock() {
        let mut state = ValidationState::default();
        let mut most = |seconds| {
            state.note(Some(of(512, 3400)), seconds);
            state.amount(share(0.1), true, Clock { step: Some(0.2), ..BEFORE })
        };
        assert_eq!((most(0.1), most(1000.0)), (Amount::AtMost(512), Amount::AtMost(512)));
    }

    #[test]
    fn a_test_has_its_own_share_of_the_run_and_never_less_than_a_validation() {
        let mut state = ValidationState::default();
        let (usual, all) = (Amount::AtMost(340), Amount::All);
        assert_eq!(state.once(usual, share(0.1), 900.0), usual, "nothing was measured");
        state.note(Some(of(340, 3400)), 6.8);
        // 20 ms for each, and a tenth of a run that takes 1000 s with it.
        let Amount::AtMost(n) = state.once(usual, share(0.1), 900.0) else { panic!("{state:?}") };
        assert!((4990..=5000).contains(&n), "{n}");
        assert_eq!((state.once(usual, share(0.1), 9.0), state.once(all, share(0.1), 9.0)), (usual, all));
    }

    #[test]
    fn all_of_them_are_measured_at_the_end_where_that_fits() {
        let mut state = ValidationState::default();
        assert!(!state.has_room_for_all(share(0.1), 1e9), "nothing was measured");
        state.note(Some(of(340, 3400)), 7.0);
        // 70 s more: a tenth of 700 s.
        assert!(!state.has_room_for_all(share(0.1), 600.0) && state.has_room_for_all(share(0.1), 701.0));
        state.note(Some(of(3400, 3400)), 70.0);
        assert!(!state.has_room_for_all(share(0.1), 1e9), "they were all measured");
    }
}
