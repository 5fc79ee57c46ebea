//! The policy that jumps to the highest rung whose upper bound fits.

mod config;

use plimsoll_types::{Budget, Bytes, Change, Decision, KeepReason, Knobs, Ladder, MoveReason, Recompute};
use serde::{Deserialize, Serialize};

pub use self::config::CertifiedConfig;
use crate::ceiling::Ceiling;
use crate::controller::{Controller, Predict};
use crate::counts::{Failures, Moment, keep, share};
use crate::pace::{Pace, PaceConfig};
use crate::{PolicyError, StepMeasured, StepRefused, ladder};

/// Stands on the highest rung whose upper bound fits the budget, and closes rungs that failed for a time.
///
/// The crate's documentation says when it moves.
/// After the brake it still moves down, since safety does not depend on how often it moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certified {
    config: CertifiedConfig,
    ladder: Ladder,
    rung: usize,
    ceiling: Ceiling,
    window: Window,
    pace: Pace,
    failures: Failures,
    /// Where what failed in the step under way leads to, once it is done.
    retreat: Option<usize>,
}

/// The steps since the last change that ran at the current rung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    n_steps: u32,
    peak: Bytes,
}

impl Certified {
    /// Accepts a configuration, and stands on its first rung.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: CertifiedConfig) -> Result<Self, PolicyError> {
        config.validate()?;
        let ladder = ladder(&config.bounds)?;
        let start = config.start.unwrap_or(ladder.at(0));
        let Some(rung) = ladder.index_of(start) else {
            let allowed = format!("a rung of the ladder from {} to {}", ladder.at(0), ladder.at(ladder.top()));
            return Err(PolicyError::out_of_range("start", start, allowed));
        };
        let (ceiling, window, pace, failures, retreat) = Default::default();
        Ok(Self { config, ladder, rung, ceiling, window, pace, failures, retreat })
    }

    /// Returns all rungs.
    pub const fn ladder(&self) -> &Ladder {
        &self.ladder
    }

    /// Hears of the budget that is there.
    fn hear(&mut self, moment: Moment) {
        self.pace.on_budget(moment);
        self.ceiling.on_budget(moment);
    }

    /// Answers a peak that is too high, for which no cooldown counts; a rung whose bound is known to be as high is kept out
    /// of by that alone.
    fn step_down(&mut self, now: u64, limit: Bytes, upper: Option<Bytes>, predict: Predict<'_>) -> Decision {
        let peak = self.window.peak;
        if self.rung == 0 {
            // Nothing to step down to; a new window lets a single high step be forgotten.
            self.window = Window::default();
            return keep(KeepReason::AtBounds);
        }
        if upper.is_none_or(|upper| upper < peak) {
            self.ceiling.close(self.rung, self.pace.moment(now), self.config.reopen_after_steps);
        }
        // Below a rung that is the whole step, parts keep the sum of gradients beside them and may need more.
        let most = upper.map_or(peak, |upper| upper.max(peak));
        let needs_less = |rung: &usize| predict(self.ladder.at(*rung).shape()).is_none_or(|it| it.upper < most);
        let to = (0..self.rung).rev().find(needs_less).unwrap_or(self.rung - 1);
        self.move_to(to, now, MoveReason::PeakTooHigh { peak, limit })
    }

    fn climb(&mut self, now: u64, budget: Bytes, predict: Predict<'_>) -> Decision {
        if let Some(decision) = self.pace.hold(now, self.pace_config()) {
            return decision;
        }
        let (seen, needed) = (self.window.n_steps, self.config.min_samples);
        if seen < needed {
            return keep(KeepReason::TooFewSamples { seen, needed });
        }
        let limit = self.limit(budget);
        let end = self.ceiling.at(self.pace.moment(now)).unwrap_or(usize::MAX).min(self.ladder.rungs().len());
        match self.highest_within(self.rung + 1, end, limit, predict) {
            None => keep(KeepReason::HighestCertified),
            Some((to, _)) if self.work(to) < self.work(self.rung) * (1.0 + self.config.min_gain) => {
                keep(KeepReason::GainTooSmall)
            }
            Some((to, upper)) => self.move_to(to, now, MoveReason::Certified { upper, limit }),
        }
    }

    fn pace_config(&self) -> PaceConfig {
        let CertifiedConfig { warm_up_steps, cooldown_steps, max_reversals, .. } = self.config;
        PaceConfig { warm_up_steps, cooldown_steps, max_reversals }
    }

    /// Returns what the upper bound of a rung has to fit into before the rung is entered.
    fn limit(&self, budget: Bytes) -> Bytes {
        share(budget, self.config.raise_below - self.config.noise)
    }

    /// Returns the highest rung in `from..end` whose upper bound is within `limit`, with that bound.
    ///
    /// The last is asked first: a rung that is the whole step keeps no sum of gradients beside it, and may fit where
    /// smaller ones do not. Below it bounds grow from rung to rung, so halving the range finds the highest in 9 queries
    /// on a ladder of 270 rungs. Where a bound dips all the same, because a rung runs other kernels than its neighbour,
    /// a lower rung may be found, but never one whose bound does not fit.
    fn highest_within(&self, from: usize, end: usize, limit: Bytes, predict: Predict<'_>) -> Option<(usize, Bytes)> {
        let fits = |rung: usize| {
            let upper = predict(self.ladder.at(rung).shape())?.upper;
            (upper <= limit).then_some((rung, upper))
        };
        let last = end.checked_sub(1).filter(|last| from <= *last)?;
        if let Some(found) = fits(last) {
            return Some(found);
        }
        let (mut low, mut high, mut found) = (from, last, None);
        while low < high {
            let middle = usize::midpoint(low, high);
            match fits(middle) {
                Some(it) => (low, found) = (middle + 1, Some(it)),
                None => high = middle,
            }
        }
        found
    }

    /// Returns the rung to go to when `budget` is too small for this one: without any bound, the next one down.
    fn refuge(&self, budget: Bytes, predict: Predict<'_>) -> usize {
        let blind = if predict(self.ladder.at(0).shape()).is_some() { 0 } else { self.rung - 1 };
        self.highest_within(0, self.rung, self.limit(budget), predict).map_or(blind, |(rung, _)| rung)
    }

    /// Answers a budget that is below the bound of the current rung.
    fn flee(&mut self, now: u64, upper: Bytes, budget: Bytes, predict: Predict<'_>) -> Decision {
        let refuge = self.refuge(budget, predict);
        self.move_to(refuge, now, MoveReason::BudgetFell { upper, budget })
    }

    /// Returns the rung to go to when `failed` ran out of memory.
    fn below(&self, failed: usize) -> usize {
        let most = self.work(failed) * self.config.retreat_to;
        (0..failed).rev().find(|rung| self.work(*rung) <= most).unwrap_or(0)
    }

    /// Goes where what failed leads to; what the failure has taught is one change with it.
    fn retreat(&mut self, now: u64, budget: Bytes, predict: Predict<'_>) -> Option<Decision> {
        let to = self.retreat.take().filter(|to| *to < self.rung)?;
        let fits = |rung| predict(self.ladder.at(rung).shape()).is_none_or(|it| it.upper <= budget);
        let to = if to == 0 || fits(to) { to } else { to.min(self.refuge(budget, predict)) };
        Some(self.move_to(to, now, MoveReason::OutOfMemory { count: self.failures.count() }))
    }

    /// Returns the work of a step on a rung.
    fn work(&self, rung: usize) -> f64 {
        self.ladder.at(rung).work()
    }

    fn move_to(&mut self, rung: usize, now: u64, reason: MoveReason) -> Decision {
        let change = Change { from: self.ladder.at(self.rung), to: self.ladder.at(rung), reason };
        let config = self.pace_config();
        self.pace.on_change(reason, now, config);
        self.rung = rung;
        self.window = Window::default();
        Decision::Move(change)
    }
}

impl Controller for Certified {
    fn on_step_done(&mut self, done: &StepMeasured, predict: Predict<'_>) -> Decision {
        let (now, budget) = (done.step.saturating_add(1), done.budget.budget);
        self.hear(Moment { now, budget });
        // The step in which the knobs moved still ran with the old ones, and says nothing of the new rung.
        if done.knobs == self.knobs() {
            self.window.n_steps = self.window.n_steps.saturating_add(1);
            self.window.peak = self.window.peak.max(done.peak);
            if !self.failures.failed(done.step) {
                self.ceiling.on_clean_step(self.rung, Moment { now, budget });
            }
        }
        if let Some(decision) = self.retreat(now, budget, predict) {
            return decision;
        }
        // A bound above the budget splits every step in two: a rung that fits whole does the same work with less.
        let (limit, upper) = (share(budget, self.config.lower_above), predict(self.knobs().shape()).map(|it| it.upper));
        let above = upper.filter(|upper| budget < *upper && 0 < self.rung);
        if let Some(steps_left) = self.pace.burst_left(above, now) {
            return keep(KeepReason::Cooldown { steps_left });
        }
        match above {
            Some(upper) => self.flee(now, upper, budget, predict),
            _ if limit < self.window.peak => self.step_down(now, limit, upper, predict),
            _ => self.climb(now, budget, predict),
        }
    }

    fn on_step_failed(&mut self, failed: &StepRefused, predict: Predict<'_>) -> Decision {
        let now = failed.step.saturating_add(1);
        if self.failures.on_step_failed(failed.step) {
            let at = self.ladder.index_of(failed.knobs).unwrap_or(self.rung);
            let to = self.below(at);
            // Under a ceiling this is the second failure of the bounds: trying the rungs between would only repeat it.
            let moment = self.pace.moment(now);
            let closed = if self.ceiling.at(moment).is_some() { to + 1 } else { at };
            self.ceiling.close(closed, moment, self.config.reopen_after_steps);
            self.pace.cool_down(now, self.pace_config());
            if self.rung == 0 {
                return keep(KeepReason::AtBounds);
            }
            self.retreat = Some(to);
        }
        let waits = keep(KeepReason::Cooldown { steps_left: self.pace.cooldown_left(now) });
        if failed.in_parts { waits } else { self.retreat(now, self.pace.moment(now).budget, predict).unwrap_or(waits) }
    }

    fn on_budget_changed(&mut self, now: u64, Budget { budget, .. }: Budget, predict: Predict<'_>) -> Decision {
        self.hear(Moment { now, budget });
        // Where nothing predicts, what the rung was seen to need stands in for its bound.
        let seen = (0 < self.window.n_steps).then_some(self.window.peak);
        match predict(self.knobs().shape()).map(|it| it.upper).or(seen) {
            Some(upper) if budget < upper && self.rung == 0 => keep(KeepReason::AtBounds),
            Some(upper) if budget < upper => self.flee(now, upper, budget, predict),
            _ => self.climb(now, budget, predict),
        }
    }

    fn on_checkpointing(&mut self, _: Recompute) {
        self.window = Window::default();
        self.ceiling = Ceiling::default();
        self.retreat = None;
    }

    fn knobs(&self) -> Knobs {
        self.ladder.at(self.rung)
    }

    fn adjustments(&self) -> u32 {
        self.pace.adjustments()
    }

    fn oom_count(&self) -> u32 {
        self.failures.count()
    }
}
