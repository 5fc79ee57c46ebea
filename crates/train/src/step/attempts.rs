//! The attempts at the parts of one step.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use plimsoll_guard::Failure;
use plimsoll_types::{Attempt, Bytes, StepShape};

use super::error::{ReadError, StepError, out_of_memory, read_values};
use super::{GuardedStep, MeanLoss, StepOutcome, StepPart, StepRequest};
use crate::gradients::{WeightedAccumulator, probe_squares, squared_norm};
use crate::stopwatch::{Lap, Stopwatch};

/// The attempts at one step, and what they have gathered so far.
pub(super) struct Attempts<'a, M: Module> {
    guarded: &'a mut GuardedStep,
    model: &'a M,
    mean_loss: MeanLoss<'a, M>,
    request: &'a StepRequest,
    accumulator: WeightedAccumulator<M>,
    n_units: u64,
    /// The mean loss, and that of each task.
    losses: Vec<f64>,
    parts: Vec<(StepPart, Option<Bytes>)>,
    peak: Bytes,
    failures: Vec<Attempt>,
    pub(super) times: Times,
}

#[derive(Default)]
pub(super) struct Times {
    pub(super) probe: Duration,
    check: Duration,
    pub(super) guard: Duration,
    pub(super) inside: Duration,
}

type Tried = Result<(), Failure<Box<StepError>>>;

impl<'a, M: Module> Attempts<'a, M> {
    pub(super) fn new(
        guarded: &'a mut GuardedStep,
        model: &'a M,
        mean_loss: MeanLoss<'a, M>,
        request: &'a StepRequest,
    ) -> Self {
        let n_units = request.n_units(0..request.units.len());
        Self {
            guarded,
            model,
            mean_loss,
            request,
            accumulator: WeightedAccumulator::new(n_units),
            n_units,
            losses: Vec::new(),
            parts: Vec::new(),
            peak: Bytes::ZERO,
            failures: Vec::new(),
            times: Times::default(),
        }
    }

    /// Runs a part; a shape that does not fit on its own becomes `too_large` for the rest of the step.
    pub(super) fn run(&mut self, samples: &Range<usize>, too_large: &Cell<Option<StepShape>>) -> Tried {
        let start = Instant::now();
        let part = self.request.run(samples);
        let is_out_of_memory = |tried: &Tried| matches!(tried, Err(Failure::OutOfMemory { .. }));
        let mut tried = self.try_part(&part);
        if is_out_of_memory(&tried) && self.guarded.pages.were_shared() {
            tried = self.try_part(&part);
        }
        if is_out_of_memory(&tried) {
            too_large.set(Some(part.shape()));
        }
        self.times.inside += start.elapsed();
        tried
    }

    fn try_part(&mut self, part: &StepPart) -> Tried {
        let (shape, n_units) = (part.shape(), self.request.n_units(part.samples.clone()));
        if !self.request.is_of_one_edge() {
            // The pages of another shape would hide what this one needs.
            self.guarded.pages.begin();
        }
        let resident = self.probe_time(|guarded| guarded.open_window(shape)).map_err(other)?.in_use;
        let attempt = Attempt { shape, resident, peak: None };
        let loss = (self.mean_loss)(self.model, part.samples.clone());
        let gradients = self.accumulator.backward(self.model, &loss.mean, n_units);
        let losses = match self.guarded.read_loss(self.model, loss, &gradients) {
            Ok(losses) => losses,
            Err(error) => return self.failed(attempt, error, gradients),
        };
        let peak = self.probe_time(|guarded| guarded.read()).map_err(other)?.peak;
        if self.request.budget.capacity < peak {
            // Pages that an earlier, larger part reserved say nothing of this one.
            let peak = self.guarded.pages.shows(shape).then_some(peak);
            return self.failed(Attempt { peak, ..attempt }, ReadError::OutOfMemory, gradients);
        }
        self.accumulator.add(self.model, gradients);
        self.add_losses(&losses, n_units);
        // Adding takes memory too, and the next part starts a new high-water mark.
        let peak = self.probe_time(|guarded| guarded.read()).map_err(other)?.peak;
        self.peak = self.peak.max(peak);
        self.parts.push((part.clone(), self.guarded.pages.shows(shape).then_some(peak)));
        Ok(())
    }

    fn add_losses(&mut self, losses: &[f64], n_units: u64) {
        self.losses.resize(losses.len(), 0.0);
        let weight = plimsoll_guard::weight(n_units, self.n_units);
        for (sum, loss) in self.losses.iter_mut().zip(losses) {
            *sum += weight * loss;
        }
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

    pub(super) fn finish(mut self, resident: Bytes, stopwatch: &mut Stopwatch) -> Result<StepOutcome, StepError> {
        let accumulator = std::mem::replace(&mut self.accumulator, WeightedAccumulator::new(0));
        let mut gradients = accumulator.finish();
        let start = Instant::now();
        let of_probes = probe_squares(&mut gradients, &self.request.task_probes);
        let norm = squared_norm(self.model, &gradients, &self.guarded.device);
        let mut norms = match read_values(Tensor::cat([norm].into_iter().chain(of_probes).collect(), 0)) {
            Ok(squares) => squares.into_iter().map(f64::sqrt),
            Err(ReadError::OutOfMemory) => return Err(out_of_memory(self.request.budget)),
            Err(ReadError::Other(error)) => return Err(*error),
        };
        self.times.check += start.elapsed();
        let (gradient_norm, mut losses) = (norms.next().unwrap_or(0.0), self.losses.into_iter());
        let loss = losses.next().unwrap_or(0.0);
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            return Err(StepError::NotFinite { loss, gradient_norm });
        }
        stopwatch.book(Lap::Probe, self.times.probe);
        stopwatch.book(Lap::Check, self.times.check);
        stopwatch.book(Lap::Guard, self.times.guard);
        let (of_tasks, task_norms) = (losses.collect(), norms.collect());
        let Self { parts, failures, peak, .. } = self;
        Ok(StepOutcome { gradients, loss, gradient_norm, of_tasks, task_norms, parts, failures, resident, peak })
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
