//! What a rule may ask of a device, and the count of it.

use plimsoll_predict::Booked;
use plimsoll_types::{Bytes, Fraction};

/// What a rule is told before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// What a step may use; one that uses more runs out of memory.
    pub budget: Bytes,
    /// Padded edge of every step.
    pub edge: u32,
    /// Largest batch that may be tried.
    pub batch_max: u32,
    /// By how much the need of equal steps is at most above or below its mean.
    pub noise: Fraction,
}

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran.
    Fitted(Reading),
    /// It ran out of memory.
    OutOfMemory,
}

/// What was measured of a step that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// Bytes that the step took at its high-water mark, `resident` included.
    pub peak: Bytes,
    /// What the allocator says of its pages, where it has any.
    pub pool: Option<Pool>,
}

/// An allocator's own account of a step; it counts pages, so that it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Bytes in pages.
    pub reserved: Bytes,
    /// The largest single allocation.
    pub largest: Bytes,
}

/// Trials of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Steps that were run, or that ran out of memory.
    pub trials: u32,
    /// Steps that ran out of memory.
    pub ooms: u32,
}

/// Runs a step of a batch.
type Step<'a> = &'a mut dyn FnMut(u32) -> Outcome;

/// Plans a step of a batch, or says that it never fits.
type PlanBatch<'a> = &'a dyn Fn(u32) -> Option<Booked>;

/// A device as a rule sees it.
pub struct Oracle<'a> {
    setting: Setting,
    step: Step<'a>,
    plan: PlanBatch<'a>,
    tally: Tally,
}

impl<'a> Oracle<'a> {
    /// Wraps a device. `plan` is asked by rules that plan, and may return `None` for a device without a dry run.
    pub fn new(setting: Setting, step: Step<'a>, plan: PlanBatch<'a>) -> Self {
        Self { setting, step, plan, tally: Tally::default() }
    }

    /// Returns what a rule is told before it begins.
    pub const fn setting(&self) -> Setting {
        self.setting
    }

    /// Returns the trials so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Runs a step and measures it.
    pub fn step(&mut self, batch: u32) -> Outcome {
        let outcome = (self.step)(batch);
        self.tally.trials += 1;
        self.tally.ooms += u32::from(outcome == Outcome::OutOfMemory);
        outcome
    }

    /// Runs a step and says only whether it fitted.
    pub fn fits(&mut self, batch: u32) -> bool {
        self.step(batch) != Outcome::OutOfMemory
    }

    /// Plans a step, which is no trial.
    pub fn plan(&self, batch: u32) -> Option<Booked> {
        (self.plan)(batch)
    }
}
