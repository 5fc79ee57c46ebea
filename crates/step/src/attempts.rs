//! The attempts at the parts of one step.

use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;
use plimsoll_guard::Failure;
use plimsoll_probe::note_work;
use plimsoll_types::{Attempt, Bytes, MemoryReading, StepShape};

use crate::error::{ReadError, StepError, read_values, unless_out_of_memory};
use crate::gradients::WeightedAccumulator;
use crate::graph::Nodes;
use crate::guarded::{GuardedStep, MeanLoss, StepOutcome, StepTimes};
use crate::issue::read_of_step;
use crate::request::{RanPart, StepPart, StepRequest};

/// The attempts at one step, and what they have gathered so far.
pub(super) struct Attempts<'a, M: Module> {
    guarded: &'a mut GuardedStep,
    model: &'a M,
    mean_loss: MeanLoss<'a, M>,
    request: &'a StepRequest,
    accumulator: WeightedAccumulator<M>,
    n_units: u64,
    is_of_one_edge: bool,
    /// The mean loss, and that of each task.
    losses: Vec<f64>,
    parts: Vec<RanPart>,
    /// Bytes in use after the last part that ran.
    pub(super) in_use: Bytes,
    peak: Bytes,
    /// The part that failed last.
    failed: Option<StepPart>,
    pub(super) times: StepTimes,
    /// What all attempts took.
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
            is_of_one_edge: request.is_of_one_edge(),
            losses: Vec::new(),
            parts: Vec::new(),
            in_use: Bytes::ZERO,
            peak: Bytes::ZERO,
            failed: None,
            times: StepTimes::default(),
            inside: Duration::ZERO,
        }
    }

    /// Runs a part; a shape that does not fit on its own becomes `too_large` for the rest of the step.
    pub(super) fn run(&mut self, samples: &Range<usize>, too_large: &Cell<Option<StepShape>>) -> Tried {
        let start = Instant::now();
        let part = self.request.part(samples);
        let tried = self.try_part(&part);
        let is_hopeless =
            matches!(tried, Err(Failure::OutOfMemory { is_worth_a_retry: false, .. } | Failure::NeverFits { .. }));
        if is_hopeless {
            too_large.set(Some(part.shape()));
        }
        self.inside += start.elapsed();
        tried
    }

    fn try_part(&mut self, part: &StepPart) -> Tried {
        let (shape, n_units) = (part.shape(), self.request.n_units(part.samples.clone()));
        if !self.is_of_one_edge {
            // The pages of another shape would hide what this one needs.
            self.guarded.pages.begin();
        }
        let resident = self.probe_time(|guarded| guarded.open_window(shape)).map_err(other)?.in_use;
        let (mut attempt, nodes) = (Attempt::new(shape, resident), Nodes::count());
        note_work(format_args!("{shape} with gradients"));
        // CubeCL panics where it has no memory to pass a kernel its arguments.
        let (mean_loss, model, accumulator) = (self.mean_loss, self.model, &self.accumulator);
        let passed = unless_out_of_memory(|| {
            let loss = mean_loss(model, part.samples.clone());
            let gradients = accumulator.backward(model, &loss.mean, n_units);
            (loss, gradients)
        });
        if self.guarded.pages.are_exact() {
            attempt.nodes = nodes.made();
        }
        let Some((loss, gradients)) = passed.map_err(other)? else {
            return self.clear(part, attempt, ReadError::OutOfMemory { refused: None }, GradientsParams::new());
        };
        let losses = match self.guarded.read_loss(self.model, loss, &gradients) {
            Ok(losses) => losses,
            Err(error) => return self.clear(part, attempt, error, gradients),
        };
        let peak = self.probe_time(|guarded| guarded.read()).map_err(other)?.peak;
        if self.request.budget.capacity < peak {
            // Pages that an earlier, larger part reserved say nothing of this one.
            let peak = self.guarded.pages.shows(shape).then_some(peak);
            return self.clear(part, Attempt { peak, ..attempt }, ReadError::OutOfMemory { refused: None }, gradients);
        }
        let (accumulator, model) = (&mut self.accumulator, self.model);
        if unless_out_of_memory(|| accumulator.add(model, gradients)).map_err(other)?.is_none() {
            // Nobody knows what is in the sum now.
            return Err(other(StepError::OutOfMemory("the sum of the step's gradients".to_owned())));
        }
        self.add_losses(&losses, n_units);
        // Adding takes memory too, and the next part starts a new high-water mark.
        let MemoryReading { in_use, peak, .. } = self.probe_time(|guarded| guarded.read()).map_err(other)?;
        (self.in_use, self.peak) = (in_use, self.peak.max(peak));
        let peak = self.guarded.pages.shows(shape).then_some(peak);
        self.parts.push(RanPart { part: part.clone(), resident, peak, nodes: attempt.nodes });
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
    ///
    /// A part is worth another try once: without the pages of earlier ones it may fit, and what the device refused it may
    /// grant when whoever else held the memory is gone.
    fn clear(&mut self, part: &StepPart, mut attempt: Attempt, error: ReadError, gradients: GradientsParams) -> Tried {
        drop(gradients);
        let mut was_refused = false;
        match error {
            ReadError::Other(error) => return Err(Failure::Other(error)),
            ReadError::OutOfMemory { refused } => {
                was_refused = attempt.peak.is_none();
                attempt.refused = refused;
            }
            ReadError::NeverFits { allocation, .. } => attempt.refused = Some(allocation),
        }
        self.guarded.failures.push(attempt);
        let is_second = self.failed.replace(part.clone()).as_ref() == Some(part);
        let is_worth_a_retry = !is_second && (was_refused || self.guarded.pages.were_shared());
        self.probe_time(GuardedStep::give_back).map_err(other)?;
        Err(error.failure(attempt.peak, is_worth_a_retry))
    }

    pub(super) fn finish(mut self, resident: Bytes) -> Result<StepOutcome, StepError> {
        let accumulator = std::mem::replace(&mut self.accumulator, WeightedAccumulator::new(0));
        let mut gradients = accumulator.finish();
        let start = Instant::now();
        let probes = &self.request.task_probes;
        let values = read_of_step(self.model, &mut gradients, probes, &self.guarded.device);
        let mut norms = match read_values(values, self.guarded.probe()) {
            Ok(squares) => squares.into_iter().map(f64::sqrt),
            Err(ReadError::Other(error)) => return Err(*error),
            Err(_) => return Err(StepError::OutOfMemory("the sum of the step's gradients".to_owned())),
        };
        self.times.check += start.elapsed();
        let (gradient_norm, mut losses) = (norms.next().unwrap_or(0.0), self.losses.into_iter());
        let loss = losses.next().unwrap_or(0.0);
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            return Err(StepError::NotFinite { loss, gradient_norm });
        }
        let (of_tasks, task_norms) = (losses.collect(), norms.collect());
        let Self { parts, peak, times, .. } = self;
        Ok(StepOutcome { gradients, loss, gradient_norm, of_tasks, task_norms, parts, resident, peak, times })
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
