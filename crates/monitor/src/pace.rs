//! How long a run will still take.

use std::collections::VecDeque;

use crate::median::median;

/// Steps that an estimate looks at.
const WINDOW: usize = 32;
/// Steps after the start or a change whose time may hold what happens once: kernels are compiled, memory is taken.
const YOUNG: u32 = 8;
/// A young step that took so many times the median is taken for such a one.
const ONCE: f64 = 4.0;
/// Steps since a change that say more than all those before it.
const ENOUGH: usize = 4;
/// Steps before which nothing is said: the first takes what no other does.
const FIRST: u32 = 2;

/// What is still to come of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Steps.
    pub steps: u64,
    /// Validations.
    pub validations: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// Estimates the time left of a run from what its last steps, its last validation and its checkpoints took.
///
/// Times are those between the end of one and the end of the next, so that nothing is left out.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    recent: VecDeque<Step>,
    /// Steps since the start or the last change of their sizes.
    n_alike: u32,
    n_steps: u32,
    validation: Option<f64>,
    checkpoints: (u32, f64),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    seconds: f64,
    is_young: bool,
}

impl Ahead {
    /// Counts what comes after `step` steps of `n_steps`, where the last step is followed by a validation and a checkpoint
    /// too.
    ///
    /// What belongs to the step that was just done is counted, unless it `is_validated`.
    pub fn after(step: u64, n_steps: u64, validate_every: u64, checkpoint_every: u64, is_validated: bool) -> Self {
        let steps = n_steps.saturating_sub(step);
        let due = |every: u64, from: u64| {
            let every = every.max(1);
            let multiples = (n_steps / every + 1).saturating_sub(from.div_ceil(every));
            multiples + u64::from(!n_steps.is_multiple_of(every) && from <= n_steps)
        };
        let from = step + u64::from(is_validated);
        Self { steps, validations: due(validate_every, from), checkpoints: due(checkpoint_every, step + 1) }
    }
}

impl Pace {
    /// Learns what a step took.
    pub fn step(&mut self, seconds: f64) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(Step { seconds, is_young: self.n_alike < YOUNG });
        (self.n_alike, self.n_steps) = (self.n_alike.saturating_add(1), self.n_steps.saturating_add(1));
    }

    /// Hears that steps are of other sizes from here on.
    pub fn change(&mut self) {
        self.n_alike = 0;
    }

    /// Learns what a validation took, or what the next ones are going to.
    pub fn validation(&mut self, seconds: f64) {
        self.validation = Some(seconds);
    }

    /// Learns what a checkpoint took.
    pub fn checkpoint(&mut self, seconds: f64) {
        self.checkpoints = (self.checkpoints.0.saturating_add(1), self.checkpoints.1 + seconds);
    }

    /// Returns what a step takes of late, once it can be told.
    pub fn of_step(&self) -> Option<f64> {
        if self.n_steps < FIRST {
            return None;
        }
        let alike = (self.n_alike as usize).min(self.recent.len());
        let is_first = self.n_alike as usize <= self.recent.len();
        // The first of those that are alike pays for the others.
        let known = alike - usize::from(is_first && 1 < alike);
        let n = if ENOUGH <= known { known } else { self.recent.len() - usize::from(self.is_whole()) };
        let steps: Vec<Step> = self.recent.iter().rev().take(n).copied().collect();
        let median = median(steps.iter().map(|it| it.seconds).collect())?;
        let counts = |it: &&Step| !it.is_young || it.seconds <= ONCE * median;
        let (sum, n) = steps.iter().filter(counts).fold((0.0, 0.0), |(sum, n), it| (sum + it.seconds, n + 1.0));
        Some(sum / n)
    }

    /// Returns what a validation takes, once there was one.
    pub fn of_validation(&self) -> Option<f64> {
        self.validation
    }

    /// Returns the time that is left in seconds, once it can be told.
    pub fn seconds_left(&self, ahead: Ahead) -> Option<f64> {
        let (n, sum) = self.checkpoints;
        let checkpoint = if n == 0 { 0.0 } else { sum / f64::from(n) };
        let rest = ahead.validations as f64 * self.validation.unwrap_or(0.0) + ahead.checkpoints as f64 * checkpoint;
        let steps = if ahead.steps == 0 { 0.0 } else { ahead.steps as f64 * self.of_step()? };
        Some(steps + rest)
    }

    /// Whether the window still holds the very first step.
    fn is_whole(&self) -> bool {
        self.n_steps as usize == self.recent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run as it is simulated: what each step takes, before which the sizes change, and what else there is.
    struct Simulated<'a> {
        n_steps: u64,
        step: &'a dyn Fn(u64) -> f64,
        changes: &'a [u64],
        validation: f64,
        checkpoint: f64,
    }

    const VALIDATE_EVERY: u64 = 100;
    const CHECKPOINT_EVERY: u64 = 200;

    impl Simulated<'_> {
        /// Returns what is said to be left after `n` steps over what really is.
        fn error(&self, n: u64) -> f64 {
            let mut pace = Pace::default();
            pace.checkpoint(self.checkpoint);
            pace.validation(self.validation);
            for step in 0..n {
                if self.changes.contains(&step) {
                    pace.change();
                }
                pace.step((self.step)(step));
            }
            let said = pace.seconds_left(Ahead::after(n, self.n_steps, VALIDATE_EVERY, CHECKPOINT_EVERY, false));
            let is_due = |step: u64, every| step == self.n_steps || step.is_multiple_of(every);
            let after = |step| {
                let validation = if is_due(step, VALIDATE_EVERY) { self.validation } else { 0.0 };
                validation + if is_due(step, CHECKPOINT_EVERY) { self.checkpoint } else { 0.0 }
            };
            let left: f64 = (n..self.n_steps).map(|step| (self.step)(step) + after(step + 1)).sum();
            said.unwrap() / left - 1.0
        }

        #[track_caller]
        fn check(&self) {
            for (n, most) in [(10, 0.5), (50, 0.15), (self.n_steps / 2, 0.15), (self.n_steps - 60, 0.15)] {
                let error = self.error(n);
                assert!(error.abs() <= most, "after {n} steps {error:+.2} off, at most {most}");
            }
        }
    }

    fn noise(step: u64) -> f64 {
        (step.wrapping_mul(2_654_435_761) % 1000) as f64 / 1000.0
    }

    #[test]
    fn steps_that_compile_first_do_not_count_for_those_to_come() {
        let compiling = |step: u64| match step {
            0 => 40.0,
            1 | 3 | 6 => 6.0,
            _ => 0.2 + 0.05 * noise(step),
        };
        Simulated { n_steps: 800, step: &compiling, changes: &[], validation: 3.0, checkpoint: 0.5 }.check();
    }

    #[test]
    fn a_minute_of_validation_at_the_end_is_still_to_come() {
        let run = Simulated { n_steps: 120, step: &|_| 0.1, changes: &[], validation: 70.0, checkpoint: 0.1 };
        run.check();
        let (mut pace, done) = (Pace::default(), Ahead::after(120, 120, VALIDATE_EVERY, CHECKPOINT_EVERY, false));
        assert_eq!(done, Ahead { steps: 0, validations: 1, checkpoints: 0 });
        pace.validation(70.0);
        assert_eq!(pace.seconds_left(done), Some(70.0));
        let over = Ahead::after(120, 120, VALIDATE_EVERY, CHECKPOINT_EVERY, true);
        assert_eq!(pace.seconds_left(over), Some(0.0));
    }

    #[test]
    fn steps_of_other_sizes_say_little_of_those_after_a_change() {
        let growing = |step: u64| {
            let settled = match step {
                0..4 => 0.05,
                4..30 => 0.22,
                _ => 0.3,
            };
            let once = if [0, 4, 30].contains(&step) { 3.0 } else { 0.0 };
            settled * (0.9 + 0.2 * noise(step)) + once
        };
        Simulated { n_steps: 600, step: &growing, changes: &[4, 30], validation: 1.5, checkpoint: 0.2 }.check();
    }

    #[test]
    fn steps_that_are_slow_again_and_again_count() {
        let stalling = |step: u64| if step % 10 == 9 { 2.0 } else { 0.2 };
        Simulated { n_steps: 900, step: &stalling, changes: &[], validation: 0.5, checkpoint: 0.2 }.check();
    }

    #[test]
    fn a_first_step_says_nothing() {
        let mut pace = Pace::default();
        let ahead = Ahead::after(1, 10, 5, 5, false);
        assert_eq!(pace.seconds_left(ahead), None);
        pace.step(30.0);
        assert_eq!(pace.seconds_left(ahead), None);
        pace.step(0.5);
        assert_eq!(pace.seconds_left(Ahead { steps: 8, ..Ahead::default() }), Some(4.0));
    }

    #[test]
    fn what_is_to_come_is_counted() {
        let ahead = |step, is_validated| Ahead::after(step, 25, 10, 20, is_validated);
        assert_eq!(ahead(0, false), Ahead { steps: 25, validations: 4, checkpoints: 2 });
        assert_eq!(ahead(0, true), Ahead { steps: 25, validations: 3, checkpoints: 2 });
        assert_eq!(ahead(10, false), Ahead { steps: 15, validations: 3, checkpoints: 2 });
        assert_eq!(ahead(20, true), Ahead { steps: 5, validations: 1, checkpoints: 1 });
        assert_eq!(ahead(25, true), Ahead { steps: 0, validations: 0, checkpoints: 0 });
    }
}
