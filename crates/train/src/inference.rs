//! Forward passes without gradients, under the same budget as training.

use std::ops::Range;

use plimsoll_guard::{Failure, Guard, GuardError};
use plimsoll_probe::Probe;
use plimsoll_types::{Budget, Bytes, Observation, StepShape};

use crate::controller::Controller;
use crate::step::StepError;

/// Runs items of one edge in batches as large as the budget allows.
///
/// The first batch is a single item; its peak certifies the next ones. A batch whose measured peak exceeded the capacity
/// is run again in two halves.
pub struct Inference<'a> {
    probe: &'a mut dyn Probe,
    controller: &'a mut Controller,
    budget: Budget,
    peak: Bytes,
}

/// The largest batch of items: more would gain no time, and results wait for the whole batch.
const MAX_BATCH: usize = 64;

impl<'a> Inference<'a> {
    /// Measures with `probe` and predicts with `controller`.
    pub fn new(probe: &'a mut dyn Probe, controller: &'a mut Controller, budget: Budget) -> Self {
        Self { probe, controller, budget, peak: Bytes::ZERO }
    }

    /// Returns the high-water mark so far.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Runs `n_items` of this `edge`; `forward` returns once the results of its range are on the host.
    ///
    /// `forward` may see the same range again, whole or in halves, when its memory exceeded the capacity: results must
    /// be stored by item, not appended.
    ///
    /// # Errors
    ///
    /// [`StepError::NeverFits`] when one item alone exceeds the capacity, or the error of `forward`.
    pub fn run(
        &mut self,
        n_items: usize,
        edge: u32,
        forward: &mut dyn FnMut(Range<usize>) -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let mut next = 0;
        while next < n_items {
            let resident = self.probe.read()?.in_use;
            let n = self.batch_size(edge, resident).min(n_items - next);
            let unknown = |_: usize| None;
            let guard = Guard { budget: self.budget.budget, predict: unknown };
            guard
                .run(std::iter::once(next..next + n), |part| self.measured(part, edge, resident, forward))
                .map_err(|error| self.error(error))?;
            next += n;
        }
        Ok(())
    }

    /// Returns the largest certified batch, or one item while nothing is known.
    fn batch_size(&self, edge: u32, resident: Bytes) -> usize {
        let fits = |n: &u32| {
            let prediction = self.controller.predict_inference(StepShape::new(*n, edge), resident);
            prediction.is_some_and(|it| it.upper <= self.budget.budget)
        };
        (2..=MAX_BATCH as u32).take_while(fits).last().unwrap_or(1) as usize
    }

    fn measured(
        &mut self,
        part: Range<usize>,
        edge: u32,
        resident: Bytes,
        forward: &mut dyn FnMut(Range<usize>) -> Result<(), StepError>,
    ) -> Result<(), Failure<Box<StepError>>> {
        let other = |error: StepError| Failure::Other(Box::new(error));
        let shape = StepShape::new(part.len() as u32, edge);
        self.probe.reset_peak().map_err(|it| other(it.into()))?;
        forward(part).map_err(other)?;
        let peak = self.probe.read().map_err(|it| other(it.into()))?.peak;
        // A forward pass that needed nothing above what was resident teaches nothing.
        if resident < peak {
            let observation = Observation { shape, resident, peak };
            self.controller.learn_inference(observation).map_err(|it| other(StepError::Device(it.to_string())))?;
        }
        if self.budget.capacity < peak {
            return Err(Failure::OutOfMemory { needed: Some(peak) });
        }
        self.peak = self.peak.max(peak);
        Ok(())
    }

    fn error(&self, error: GuardError<Box<StepError>>) -> StepError {
        match error {
            GuardError::Other(error) => *error,
            source @ GuardError::NeverFits { .. } => StepError::NeverFits { source, capacity: self.budget.capacity },
        }
    }
}
