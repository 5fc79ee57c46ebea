//! One optimizer step that either happens with exactly its samples, or does not happen.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use plimsoll_guard::Guard;
use plimsoll_predict::Phase;
use plimsoll_probe::Probe;
use plimsoll_types::{Attempt, Bytes, MemoryReading, Prediction, StepShape};

use crate::attempts::Attempts;
use crate::error::{ReadError, StepError, is_readable, read_values, step_error, unless_out_of_memory};
use crate::forward::ForwardPasses;
use crate::gradients::squared_weights;
use crate::issue::{Loss, read_of_part};
use crate::needs::LeastNeeds;
use crate::pages::Pages;
use crate::request::{RanPart, StepRequest};

/// A step that is ready for the optimizer.
pub struct StepOutcome {
    /// The gradient of the mean loss over all samples of the step.
    pub gradients: GradientsParams,
    /// The mean loss over all samples.
    pub loss: f64,
    /// The global norm of the gradient.
    pub gradient_norm: f64,
    /// Of each task, the mean loss over its samples; see [`Loss::of_tasks`].
    pub of_tasks: Vec<f64>,
    /// Of each probe that was asked for, the norm of its gradient.
    pub task_norms: Vec<f64>,
    /// The parts that ran, in order.
    pub parts: Vec<RanPart>,
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// High-water mark of the parts that ran.
    pub peak: Bytes,
    /// What watching over it took.
    pub times: StepTimes,
}

/// What watching over a step took, beside the step itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Reading memory.
    pub probe: Duration,
    /// Reading what depends on every gradient.
    pub check: Duration,
    /// Looking ahead, and dividing.
    pub guard: Duration,
}

/// Runs the forward and backward passes of optimizer steps under a budget.
///
/// A part that runs out of memory, or whose measured peak exceeded the capacity, is discarded and run again in two
/// halves, and every later part of its size in the step runs in halves at once: the same samples, weighted so that the
/// gradient is the one of the undivided step. A single sample that was measured to need more than there is by now does not
/// run, where peaks are exact: nothing but the system may be there to refuse it. Before the optimizer may step, one scalar
/// that depends on every gradient is read, because a failed allocation on `CubeCL` shows only there. A panic of `CubeCL` for
/// want of memory counts as such a failure.
///
/// Where the device reports no exact peaks (`CubeCL`: what is reserved, which falls only by a cleanup), unused pages go
/// back to it after a failure and before a step of another shape than the last, so that a peak is never that of an
/// earlier, larger part. A part that failed among the pages of earlier ones, or was refused an allocation, is tried once
/// more after the cleanup before it is split.
pub struct GuardedStep {
    probe: Box<dyn Probe>,
    pub(crate) device: Device,
    pub(crate) pages: Pages,
    needs: LeastNeeds,
    /// The parts of the last step that ran out of memory.
    pub(crate) failures: Vec<Attempt>,
}

/// The prediction for a size that has just run out of memory.
const BEYOND: Prediction = Prediction { expected: Bytes::MAX, upper: Bytes::MAX };

/// Predicts the peak of a shape, given the bytes that are resident.
pub type PredictShape<'a> = &'a dyn Fn(StepShape, Bytes) -> Option<Prediction>;

/// Returns the mean loss over a range of a step's samples.
pub type MeanLoss<'a, M> = &'a dyn Fn(&M, Range<usize>) -> Loss;

impl GuardedStep {
    /// Measures with `probe` what happens on `device`.
    pub fn new(probe: Box<dyn Probe>, device: Device) -> Self {
        let pages = Pages::new(&*probe);
        Self { probe, device, pages, needs: LeastNeeds::default(), failures: Vec::new() }
    }

    /// Returns the parts of the last step that ran out of memory, whether it happened or not; none the second time.
    pub fn take_failures(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.failures)
    }

    /// Goes on with the same device under another strategy of its gradients.
    pub fn set_device(&mut self, device: Device) {
        self.device = device;
        self.needs.forget();
    }

    /// Returns the probe.
    pub fn probe(&self) -> &dyn Probe {
        &*self.probe
    }

    /// Draws the line that no allocation may pass: at the capacity, or where only the device itself ends.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when the capacity cannot be read.
    pub fn draw_line(&mut self, is_at_capacity: bool) -> Result<(), StepError> {
        Ok(self.probe.draw_line(is_at_capacity.then_some(Bytes::MAX))?)
    }

    /// Lends the probe to someone who will use the device: the next step begins without what that leaves reserved.
    pub fn probe_mut(&mut self) -> &mut dyn Probe {
        self.pages.forget();
        &mut *self.probe
    }

    /// Begins forward passes on the same device, which heed what single items were measured to need; the next step begins
    /// without what they leave reserved.
    pub fn forward_passes(&mut self) -> ForwardPasses<'_> {
        self.pages.forget();
        ForwardPasses::new(&mut *self.probe).heeding(&mut self.needs)
    }

    /// Lets the next step begin without what earlier ones have left reserved.
    pub fn forget_pages(&mut self) {
        self.pages.forget();
    }

    /// Runs all samples of a step, accumulates their gradients and checks them.
    ///
    /// `mean_loss` takes a range of the step's samples, all of one edge, and returns their mean loss with its graph.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step has happened then.
    pub fn attempt<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_loss: MeanLoss<'_, M>,
    ) -> Result<StepOutcome, StepError> {
        self.failures.clear();
        match self.attempt_once(model, request, predict, mean_loss) {
            // Each part was whole, and their sum is not: the pages of all of them together were too much.
            Err(StepError::OutOfMemory(_)) => self.give_back()?,
            ran => return ran,
        }
        self.attempt_once(model, request, predict, mean_loss).map_err(|error| match error {
            StepError::OutOfMemory(_) => StepError::SumNeverFits { capacity: request.budget.capacity },
            error => error,
        })
    }

    fn attempt_once<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_loss: MeanLoss<'_, M>,
    ) -> Result<StepOutcome, StepError> {
        let start = Instant::now();
        let reading = self.probe.read()?;
        let resident = reading.in_use;
        self.pages.begin();
        let first = request.micro_batches.first().and_then(|it| predict(it.shape(), resident));
        if first.is_some_and(|it| it.upper < reading.reserved) {
            self.pages.outgrown(&mut *self.probe, reading.reserved)?;
        }
        let needs = self.needs.clone();
        let mut attempts = Attempts::new(self, model, mean_loss, request);
        attempts.times.probe = start.elapsed();
        let (too_large, in_use) = (Cell::new(None), Cell::new(resident));
        let known = |samples: &Range<usize>| {
            let shape = request.part(samples).shape();
            let failed = too_large.get().is_some_and(|it: StepShape| shape.covers(it));
            // Each part but the first finds the gradients of those before it.
            if failed { Some(BEYOND) } else { predict(shape, in_use.get()) }
        };
        let too_much = |sample: usize| {
            let shape = StepShape::new(1, request.edge_of(sample));
            needs.too_much(Phase::Train, shape, in_use.get(), request.budget.capacity)
        };
        let guard = Guard { budget: request.budget.budget, predict: known, too_much };
        let whole = request.micro_batches.iter().map(|it| it.samples.clone());
        let begun = Instant::now();
        let ran = guard.run(whole, |part| {
            let tried = attempts.run(&part, &too_large);
            in_use.set(attempts.in_use.max(resident));
            tried
        });
        attempts.times.guard = begun.elapsed().saturating_sub(attempts.inside);
        match ran.map_err(|error| step_error(error, request.budget.capacity)) {
            Ok(_) => {
                let outcome = attempts.finish(resident)?;
                self.note_needs(&outcome.parts);
                Ok(outcome)
            }
            // With weights that an earlier optimizer's step has lost, nothing fits.
            Err(StepError::NeverFits { .. }) if !self.pages.are_exact() && !self.weights_are_whole(model)? => {
                Err(StepError::Damaged)
            }
            Err(error) => Err(error),
        }
    }

    /// Learns what single samples need, where peaks are their own.
    fn note_needs(&mut self, parts: &[RanPart]) {
        if !self.pages.are_exact() {
            return;
        }
        for RanPart { part, resident, peak, .. } in parts {
            if let Some(peak) = peak {
                self.needs.note(Phase::Train, part.shape(), *resident, *peak);
            }
        }
    }

    /// Reads memory after the optimizer's step; the peak includes that step where the device measures peaks exactly.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when memory cannot be measured.
    pub fn read(&self) -> Result<MemoryReading, StepError> {
        Ok(self.probe.read()?)
    }

    /// Whether every weight can be read: after an optimizer's step that ran out of memory some cannot.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the device fails in another way.
    pub fn weights_are_whole<M: Module>(&self, model: &M) -> Result<bool, StepError> {
        let read = unless_out_of_memory(|| is_readable(squared_weights(model, &self.device), self.probe()))?;
        read.unwrap_or(Ok(false))
    }

    /// Starts a new high-water mark for a part of this shape.
    pub(crate) fn open_window(&mut self, shape: StepShape) -> Result<MemoryReading, StepError> {
        self.pages.enter(&mut *self.probe, shape)?;
        self.probe.announce(shape);
        self.probe.reset_peak()?;
        Ok(self.probe.read()?)
    }

    /// Returns to the device what nobody holds any more, such as what a failure has left reserved.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when the device refuses.
    pub fn give_back(&mut self) -> Result<(), StepError> {
        Ok(self.pages.give_back(&mut *self.probe)?)
    }

    /// Reads the loss and what belongs to tasks, and on devices that fail silently the norm of the part's gradients with it.
    pub(crate) fn read_loss<M: Module>(
        &self,
        model: &M,
        loss: Loss,
        gradients: &GradientsParams,
    ) -> Result<Vec<f64>, ReadError> {
        let is_exact = self.pages.are_exact();
        let checked = (!is_exact).then_some((model, gradients, &self.device));
        let mut values = read_values(read_of_part(loss, checked), self.probe())?;
        values.truncate(values.len() - usize::from(!is_exact));
        Ok(values)
    }
}
