//! The other devices that parts of the model lie on.

use plimsoll_guard::Guard;
use plimsoll_types::{Bytes, StepShape};

use super::GuardedStep;
use crate::elsewhere::Elsewhere;
use crate::error::StepError;
use crate::request::StepPart;

impl GuardedStep {
    /// Measures and bounds another device too that parts of the model lie on: a part of a step fits where it fits on each.
    ///
    /// Losses are read on the first; what is said of an attempt, but for its failures, is said of the first.
    #[must_use]
    pub fn also_on(mut self, other: Elsewhere) -> Self {
        if !other.is_exact() {
            self.guard = Guard::new(true);
        }
        self.others.push(other);
        self
    }

    /// Returns the other devices that parts of the model lie on.
    pub fn others(&self) -> &[Elsewhere] {
        &self.others
    }

    /// Lends them.
    pub fn others_mut(&mut self) -> &mut [Elsewhere] {
        &mut self.others
    }

    /// Whether a failed allocation is silent, on one of the devices at least.
    pub(crate) fn is_silent(&self) -> bool {
        !self.pages.are_exact() || self.others.iter().any(|it| !it.is_exact())
    }

    /// Starts a new high-water mark for a part on each other device; `group` is its place among the parts of the step.
    pub(crate) fn open_elsewhere(&mut self, part: &StepPart, group: usize) -> Result<(), StepError> {
        Ok(self.others.iter_mut().try_for_each(|it| it.open_window(part, group))?)
    }

    /// Whether the part under way fits on each other device; notes on which it does not.
    pub(crate) fn fits_elsewhere(&mut self, nodes: u64) -> Result<bool, StepError> {
        self.short = None;
        for (at, other) in self.others.iter_mut().enumerate() {
            if !other.fits(if other.is_exact() { nodes } else { 0 })? {
                self.short = Some(at);
            }
        }
        Ok(self.short.is_none())
    }

    /// Ends the part under way on each other device.
    pub(crate) fn close_elsewhere(&mut self) -> Result<(), StepError> {
        Ok(self.others.iter_mut().try_for_each(Elsewhere::close_window)?)
    }

    /// Returns the other device that a part did not fit on last, where that was one.
    pub(crate) fn short(&self) -> Option<&Elsewhere> {
        self.short.and_then(|at| self.others.get(at))
    }

    /// Whether a part is known to need more on another device than a step may use there, and what a single sample of it would
    /// reach there at least, where that is more than there is; notes on which.
    pub(crate) fn beyond_elsewhere(&mut self, shape: StepShape) -> (bool, Option<Bytes>) {
        self.short = self.others.iter_mut().position(|it| it.is_beyond(shape));
        let is_beyond = self.short.is_some();
        let at = self.others.iter_mut().enumerate().find_map(|(at, it)| Some((at, it.too_much(shape)?)));
        self.short = at.map(|it| it.0).or(self.short);
        (is_beyond, at.map(|it| it.1))
    }
}
