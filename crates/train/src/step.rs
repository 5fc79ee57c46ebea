//! One optimizer step that either happens with exactly its samples, or does not happen.

use std::cell::Cell;
use std::ops::Range;
use std::time::Instant;

use burn::module::{Module, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use plimsoll_guard::Guard;
use plimsoll_predict::Phase;
use plimsoll_probe::Probe;
use plimsoll_types::{Attempt, Budget, Bytes, Knobs, MemoryReading, Prediction, StepShape};

use crate::gradients::{squared_norm, squared_weights};
use crate::job::Loss;
use crate::stopwatch::Stopwatch;

mod attempts;
mod error;
mod needs;
mod pages;

use self::attempts::Attempts;
pub use self::error::StepError;
use self::error::{ReadError, read_values};
pub(crate) use self::error::{is_readable, step_error, unless_out_of_memory};
pub(crate) use self::needs::LeastNeeds;
pub(crate) use self::pages::Pages;

/// What a step is asked to do.
#[derive(Clone, Debug)]
pub struct StepRequest {
    /// The micro-batches, in order.
    pub micro_batches: Vec<StepPart>,
    /// How much each sample counts in the step's mean: 1, or its tokens.
    pub units: Vec<u64>,
    /// Parameters whose gradients are read and left out; see [`Job::task_probes`](crate::Job::task_probes).
    pub task_probes: Vec<ParamId>,
    /// What there is.
    pub budget: Budget,
}

/// Samples that run together, all with one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPart {
    /// A range of the step's samples.
    pub samples: Range<usize>,
    /// Their edge.
    pub edge: u32,
}

impl StepPart {
    /// Divides samples of one edge, full micro-batches first, the ragged one last.
    pub fn divide(samples: Range<usize>, edge: u32, micro_batch_size: u32) -> impl Iterator<Item = Self> {
        let (end, size) = (samples.end, micro_batch_size.max(1) as usize);
        samples.step_by(size).map(move |start| Self { samples: start..end.min(start + size), edge })
    }

    /// Returns the shape of the micro-batch.
    pub fn shape(&self) -> StepShape {
        StepShape::new(u32::try_from(self.samples.len()).unwrap_or(u32::MAX), self.edge)
    }
}

/// A part that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanPart {
    /// Its samples.
    pub part: StepPart,
    /// Bytes in use before it; the gradients that the parts before it have accumulated are among them.
    pub resident: Bytes,
    /// Its high-water mark, where that is known to be its own.
    pub peak: Option<Bytes>,
    /// The nodes of its graph; zero where that is small, and where peaks are not exact.
    pub nodes: u64,
}

impl StepRequest {
    /// Asks for samples of one edge that count one each.
    pub fn of_edge(n_samples: usize, knobs: Knobs, budget: Budget) -> Self {
        let micro_batches = StepPart::divide(0..n_samples, knobs.patch_size, knobs.micro_batch_size).collect();
        Self { micro_batches, units: vec![1; n_samples], task_probes: Vec::new(), budget }
    }

    /// Returns the edge of a sample.
    pub(crate) fn edge_of(&self, sample: usize) -> u32 {
        let at = self.micro_batches.partition_point(|it| it.samples.end <= sample);
        self.micro_batches.get(at).map_or(0, |it| it.edge)
    }

    fn run(&self, samples: &Range<usize>) -> StepPart {
        StepPart { samples: samples.clone(), edge: self.edge_of(samples.start) }
    }

    fn is_of_one_edge(&self) -> bool {
        self.micro_batches.windows(2).all(|pair| pair[0].edge == pair[1].edge)
    }

    fn n_units(&self, samples: Range<usize>) -> u64 {
        self.units[samples].iter().sum()
    }
}

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
}

/// Runs the forward and backward passes of optimizer steps under a budget.
///
/// A part that runs out of memory, or whose measured peak exceeded the capacity, is discarded and run again in two
/// halves, and every later part of its size in the step runs in halves at once: the same samples, weighted so that the
/// gradient is the one of the undivided step. A single sample that was measured to need more than there is by now does not
/// run, where peaks are exact: nothing but the system may be there to refuse it. Before the optimizer may step, one scalar
/// that depends on every gradient is read, because a failed allocation on `CubeCL` shows only there. A panic of `CubeCL` for want of memory counts as
/// such a failure.
///
/// Where the device reports no exact peaks (`CubeCL`: what is reserved, which falls only by a cleanup), unused pages go
/// back to it after a failure and before a step of another shape than the last, so that a peak is never that of an
/// earlier, larger part. A part that failed among the pages of earlier ones, or was refused an allocation, is tried once
/// more after the cleanup before it is split.
///
/// # Example
///
/// ```no_run
/// # use burn::{module::Module, optim::ModuleOptimizer, tensor::{Device, Tensor}};
/// # use plimsoll_train::{GuardedStep, StepError, StepRequest, Stopwatch};
/// # fn train<M: Module>(mut model: M, mut optimizer: ModuleOptimizer, device: Device, request: StepRequest,
/// #     mean_loss: impl Fn(&M, std::ops::Range<usize>) -> plimsoll_train::Loss) -> Result<(), StepError> {
/// let probe = plimsoll_probe::open(plimsoll_probe::DeviceKind::Flex, None)?;
/// let mut guarded = GuardedStep::new(probe, device);
/// let mut stopwatch = Stopwatch::with_capacity(1);
/// let outcome = guarded.run(&model, &request, &|_shape, _resident| None, &mean_loss, &mut stopwatch)?;
/// model = optimizer.step(1e-3, model, outcome.gradients);
/// # Ok(())
/// # }
/// ```
pub struct GuardedStep {
    probe: Box<dyn Probe>,
    device: Device,
    pages: Pages,
    needs: LeastNeeds,
    /// The parts of the last step that ran out of memory.
    failures: Vec<Attempt>,
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
    pub(crate) fn set_device(&mut self, device: Device) {
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
    pub(crate) fn draw_line(&mut self, is_at_capacity: bool) -> Result<(), StepError> {
        Ok(self.probe.draw_line(is_at_capacity.then_some(Bytes::MAX))?)
    }

    /// Lends the probe to someone who will use the device: the next step begins without what that leaves reserved.
    pub(crate) fn probe_mut(&mut self) -> &mut dyn Probe {
        self.lend().0
    }

    /// As [`Self::probe_mut`], with what single samples were measured to need.
    pub(crate) fn lend(&mut self) -> (&mut dyn Probe, &mut LeastNeeds) {
        self.pages.forget();
        (&mut *self.probe, &mut self.needs)
    }

    /// Lets the next step begin without what earlier ones have left reserved.
    pub(crate) fn forget_pages(&mut self) {
        self.pages.forget();
    }

    /// Runs all samples of a step and accumulates their gradients.
    ///
    /// `mean_loss` takes a range of the step's samples, all of one edge, and returns their mean loss with its graph.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step has happened then.
    pub fn run<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_loss: MeanLoss<'_, M>,
        stopwatch: &mut Stopwatch,
    ) -> Result<StepOutcome, StepError> {
        self.failures.clear();
        match self.run_once(model, request, predict, mean_loss, stopwatch) {
            // Each part was whole, and their sum is not: the pages of all of them together were too much.
            Err(StepError::OutOfMemory(_)) => self.give_back()?,
            ran => return ran,
        }
        self.run_once(model, request, predict, mean_loss, stopwatch).map_err(|error| match error {
            StepError::OutOfMemory(_) => StepError::SumNeverFits { capacity: request.budget.capacity },
            error => error,
        })
    }

    fn run_once<M: Module>(
        &mut self,
        model: &M,
        request: &StepRequest,
        predict: PredictShape<'_>,
        mean_loss: MeanLoss<'_, M>,
        stopwatch: &mut Stopwatch,
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
            let shape = request.run(samples).shape();
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
        attempts.times.guard = begun.elapsed().saturating_sub(attempts.times.inside);
        match ran.map_err(|error| step_error(error, request.budget.capacity)) {
            Ok(_) => {
                let outcome = attempts.finish(resident, stopwatch)?;
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
    pub(crate) fn weights_are_whole<M: Module>(&self, model: &M) -> Result<bool, StepError> {
        let read = unless_out_of_memory(|| is_readable(squared_weights(model, &self.device), self.probe()))?;
        read.unwrap_or(Ok(false))
    }

    /// Starts a new high-water mark for a part of this shape.
    fn open_window(&mut self, shape: StepShape) -> Result<MemoryReading, StepError> {
        self.pages.enter(&mut *self.probe, shape)?;
        self.probe.announce(shape);
        self.probe.reset_peak()?;
        Ok(self.probe.read()?)
    }

    /// Returns to the device what a failed part has left reserved.
    pub(crate) fn give_back(&mut self) -> Result<(), StepError> {
        Ok(self.pages.give_back(&mut *self.probe)?)
    }

    /// Reads the loss and what belongs to tasks, and on devices that fail silently the norm of the part's gradients with it.
    fn read_loss<M: Module>(&self, model: &M, loss: Loss, gradients: &GradientsParams) -> Result<Vec<f64>, ReadError> {
        let mut tensors = vec![loss.mean.inner()];
        tensors.extend(loss.of_tasks);
        if self.pages.are_exact() {
            return read_values(Tensor::cat(tensors, 0), self.probe());
        }
        tensors.push(squared_norm(model, gradients, &self.device));
        let mut values = read_values(Tensor::cat(tensors, 0), self.probe())?;
        values.pop();
        Ok(values)
    }
}
