//! One optimizer step that either happens with exactly its samples, or does not happen.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use plimsoll_guard::{Failure, Guard};
use plimsoll_probe::Probe;
use plimsoll_types::{Attempt, Budget, Bytes, Knobs, MemoryReading, Prediction, StepShape};

use crate::gradients::{WeightedAccumulator, squared_norm};
use crate::stopwatch::{Lap, Stopwatch};

mod error;
mod pages;

pub use self::error::StepError;
pub(crate) use self::error::read_values_of;
use self::error::{ReadError, out_of_memory, read_values, step_error};
pub(crate) use self::pages::Pages;

/// What a step is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct StepRequest {
    /// Samples of the step.
    pub n_samples: usize,
    /// Their edge, and how many to run at once.
    pub knobs: Knobs,
    /// What there is.
    pub budget: Budget,
}

/// A step that is ready for the optimizer.
pub struct StepOutcome {
    /// The gradient of the mean loss over all samples of the step.
    pub gradients: GradientsParams,
    /// The mean loss over all samples.
    pub loss: f64,
    /// The global norm of the gradient.
    pub gradient_norm: f64,
    /// The parts that ran, in order: ranges of the step's samples.
    pub parts: Vec<Range<usize>>,
    /// The parts that ran out of memory on the way.
    pub failures: Vec<Attempt>,
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// High-water mark of the parts that ran.
    pub peak: Bytes,
}

/// Runs the forward and backward passes of optimizer steps under a budget.
///
/// A part that runs out of memory, or whose measured peak exceeded the capacity, is discarded and run again in two
/// halves, and every later part of its size in the step runs in halves at once: the same samples, weighted so that the
/// gradient is the one of the undivided step. Before the optimizer may step, one scalar that depends on every gradient
/// is read, because a failed allocation on `CubeCL` shows only there.
///
/// Where the device reports no exact peaks (`CubeCL`: what is reserved, which falls only by a cleanup), unused pages go
/// back to it after a failure and before a step of another shape than the last, so that a peak is never that of an
/// earlier, larger part. A part that failed among the pages of earlier ones is tried again without them before it is
/// split.
///
/// # Example
///
/// ```no_run
/// # use burn::{module::Module, optim::ModuleOptimizer, tensor::{Device, Tensor}};
/// # use plimsoll_train::{GuardedStep, StepRequest, StepError, Stopwatch};
/// # fn train<M: Module>(mut model: M, mut optimizer: ModuleOptimizer, device: Device, request: StepRequest,
/// #     mean_loss: impl Fn(&M, std::ops::Range<usize>) -> Tensor<1>) -> Result<(), StepError> {
/// let probe = plimsoll_probe::open(plimsoll_probe::DeviceKind::Flex, None)?;
/// let mut guarded = GuardedStep::new(probe, device);
/// let mut stopwatch = Stopwatch::with_capacity(1);
/// let outcome = guarded.run(&model, request, &|_shape, _resident| None, &mean_loss, &mut stopwatch)?;
/// model = optimizer.step(1e-3, model, outcome.gradients);
/// # Ok(())
/// # }
/// ```
pub struct GuardedStep {
    probe: Box<dyn Probe>,
    device: Device,
    pages: Pages,
}

/// The prediction for a size that has just run out of memory.
const BEYOND: Prediction = Prediction { expected: Bytes::MAX, upper: Bytes::MAX };

/// Predicts the peak of a shape, given the bytes that are resident.
pub type PredictShape<'a> = &'a dyn Fn(StepShape, Bytes) -> Option<Prediction>;

impl GuardedStep {
    /// Measures with `probe` what happens on `device`.
    pub fn new(probe: Box<dyn Probe>, device: Device) -> Self {
        let pages = Pages::new(&*probe);
        Self { probe, device, pages }
    }

    /// Returns the probe.
    pub fn probe(&self) -> &dyn Probe {
        &*self.probe
    }

    /// Lends the probe to someone who will use the device: the next step begins without what that leaves reserved.
    pub(crate) fn probe_mut(&mut self) -> &mut dyn Probe {
        self.pages.forget();
        &mut *self.probe
    }

    /// Runs all samples of a step and accumulates their gradients.
    ///
    /// `mean_loss` takes a range of the step's samples and returns their mean loss, of shape `[1]`, with its graph.
    ///
    /// # Errors
    ///
    /// [`StepError`]; nothing of the step has happened then.
    pub fn run<M: Module>(
        &mut self,
        model: &M,
        request: StepRequest,
        predict: PredictShape<'_>,
        mean_loss: &dyn Fn(&M, Range<usize>) -> Tensor<1>,
        stopwatch: &mut Stopwatch,
    ) -> Result<StepOutcome, StepError> {
        let start = Instant::now();
        let reading = self.probe.read()?;
        let resident = reading.in_use;
        self.pages.begin();
        let first = shape(request.n_samples.min(request.knobs.micro_batch_size as usize), request.knobs.patch_size);
        if predict(first, resident).is_some_and(|it| it.upper < reading.reserved) {
            self.pages.outgrown(&mut *self.probe, reading.reserved)?;
        }
        let mut attempts = Attempts::new(self, model, mean_loss, request);
        attempts.times.probe = start.elapsed();
        let (edge, too_many) = (request.knobs.patch_size, Cell::new(usize::MAX));
        let known = |n: usize| if too_many.get() <= n { Some(BEYOND) } else { predict(shape(n, edge), resident) };
        let guard = Guard { budget: request.budget.budget, predict: known };
        let whole = micro_batches(request.n_samples, request.knobs.micro_batch_size as usize);
        let begun = Instant::now();
        let ran = guard.run(whole, |part| attempts.run(part, &too_many));
        attempts.times.guard = begun.elapsed().saturating_sub(attempts.times.inside);
        let parts = ran.map_err(|error| step_error(error, request.budget.capacity))?;
        attempts.finish(parts, resident, stopwatch)
    }

    /// Reads memory after the optimizer's step; the peak includes that step where the device measures peaks exactly.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when memory cannot be measured.
    pub fn read(&self) -> Result<MemoryReading, StepError> {
        Ok(self.probe.read()?)
    }

    /// Starts a new high-water mark for a part of this shape.
    fn open_window(&mut self, shape: StepShape) -> Result<MemoryReading, StepError> {
        self.pages.enter(&mut *self.probe, shape)?;
        self.probe.reset_peak()?;
        Ok(self.probe.read()?)
    }

    /// Returns to the device what a failed part has left reserved.
    fn give_back(&mut self) -> Result<(), StepError> {
        Ok(self.pages.give_back(&mut *self.probe)?)
    }

    /// Reads the loss, and on devices that fail silently the norm of the part's gradients with it.
    fn read_loss<M: Module>(&self, model: &M, loss: Tensor<1>, gradients: &GradientsParams) -> Result<f64, ReadError> {
        let loss = loss.inner();
        if self.pages.are_exact() {
            return Ok(read_values(loss)?[0]);
        }
        let norm = squared_norm(model, gradients, &self.device);
        Ok(read_values(Tensor::cat(vec![loss, norm], 0))?[0])
    }
}

/// The attempts at one step, and what they have gathered so far.
struct Attempts<'a, M: Module> {
    guarded: &'a mut GuardedStep,
    model: &'a M,
    mean_loss: &'a dyn Fn(&M, Range<usize>) -> Tensor<1>,
    request: StepRequest,
    accumulator: WeightedAccumulator<M>,
    loss: f64,
    peak: Bytes,
    failures: Vec<Attempt>,
    times: Times,
}

#[derive(Default)]
struct Times {
    probe: Duration,
    check: Duration,
    guard: Duration,
    inside: Duration,
}

type Tried = Result<(), Failure<Box<StepError>>>;

impl<'a, M: Module> Attempts<'a, M> {
    fn new(
        guarded: &'a mut GuardedStep,
        model: &'a M,
        mean_loss: &'a dyn Fn(&M, Range<usize>) -> Tensor<1>,
        request: StepRequest,
    ) -> Self {
        let accumulator = WeightedAccumulator::new(request.n_samples);
        let (failures, times) = (Vec::new(), Times::default());
        Self { guarded, model, mean_loss, request, accumulator, loss: 0.0, peak: Bytes::ZERO, failures, times }
    }

    /// Runs a part; a size that does not fit on its own either becomes `too_many` for the rest of the step.
    fn run(&mut self, part: Range<usize>, too_many: &Cell<usize>) -> Tried {
        let start = Instant::now();
        let is_out_of_memory = |tried: &Tried| matches!(tried, Err(Failure::OutOfMemory { .. }));
        let mut tried = self.try_part(part.clone());
        if is_out_of_memory(&tried) && self.guarded.pages.were_shared() {
            tried = self.try_part(part.clone());
        }
        if is_out_of_memory(&tried) {
            too_many.set(part.len());
        }
        self.times.inside += start.elapsed();
        tried
    }

    fn try_part(&mut self, part: Range<usize>) -> Tried {
        let n_samples = part.len();
        let shape = shape(n_samples, self.request.knobs.patch_size);
        let resident = self.probe_time(|guarded| guarded.open_window(shape)).map_err(other)?.in_use;
        let attempt = Attempt { shape, resident, peak: None };
        let loss = (self.mean_loss)(self.model, part);
        let gradients = self.accumulator.backward(self.model, &loss, n_samples);
        let mean = match self.guarded.read_loss(self.model, loss, &gradients) {
            Ok(mean) => mean,
            Err(error) => return self.failed(attempt, error, gradients),
        };
        let peak = self.probe_time(|guarded| guarded.read()).map_err(other)?.peak;
        if self.request.budget.capacity < peak {
            // Pages that an earlier, larger part reserved say nothing of this one.
            let peak = self.guarded.pages.shows(shape).then_some(peak);
            return self.failed(Attempt { peak, ..attempt }, ReadError::OutOfMemory, gradients);
        }
        self.accumulator.add(self.model, gradients);
        self.loss += mean * plimsoll_guard::weight(n_samples, self.request.n_samples);
        // Adding takes memory too, and the next part starts a new high-water mark.
        let peak = self.probe_time(|guarded| guarded.read()).map_err(other)?.peak;
        self.peak = self.peak.max(peak);
        Ok(())
    }

    /// Drops what the attempt made, tidies up, and says what kind of failure it was.
    fn failed(&mut self, attempt: Attempt, error: ReadError, gradients: GradientsParams) -> Tried {
        drop(gradients);
        match error {
            ReadError::OutOfMemory => {
                self.failures.push(attempt);
                self.probe_time(GuardedStep::give_back).map_err(other)?;
                Err(Failure::OutOfMemory { needed: attempt.peak })
            }
            ReadError::Other(error) => Err(Failure::Other(error)),
        }
    }

    fn finish(
        mut self,
        parts: Vec<Range<usize>>,
        resident: Bytes,
        stopwatch: &mut Stopwatch,
    ) -> Result<StepOutcome, StepError> {
        let gradients = self.accumulator.finish();
        let start = Instant::now();
        let norm = squared_norm(self.model, &gradients, &self.guarded.device);
        let gradient_norm = match read_values(norm) {
            Ok(values) => values[0].sqrt(),
            Err(ReadError::OutOfMemory) => return Err(out_of_memory(self.request.budget)),
            Err(ReadError::Other(error)) => return Err(*error),
        };
        self.times.check += start.elapsed();
        if !(self.loss.is_finite() && gradient_norm.is_finite()) {
            return Err(StepError::NotFinite { loss: self.loss, gradient_norm });
        }
        stopwatch.book(Lap::Probe, self.times.probe);
        stopwatch.book(Lap::Check, self.times.check);
        stopwatch.book(Lap::Guard, self.times.guard);
        let Self { loss, failures, peak, .. } = self;
        Ok(StepOutcome { gradients, loss, gradient_norm, parts, failures, resident, peak })
    }

    fn probe_time<T>(&mut self, work: impl FnOnce(&mut GuardedStep) -> T) -> T {
        let start = Instant::now();
        let result = work(self.guarded);
        self.times.probe += start.elapsed();
        result
    }
}

fn other(error: StepError) -> Failure<Box<StepError>> {
    Failure::Other(Box::new(error))
}

/// Full micro-batches first, the ragged one last.
fn micro_batches(n_samples: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n_samples).step_by(size.max(1)).map(move |start| start..n_samples.min(start + size.max(1)))
}

fn shape(n_samples: usize, edge: u32) -> StepShape {
    StepShape::new(u32::try_from(n_samples).unwrap_or(u32::MAX), edge)
}
