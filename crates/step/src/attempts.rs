//! The attempts at the parts of one step.

mod finish;

use std::ops::Range;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::GradientsParams;

use plimsoll_guard::{Ahead, Failure, Happened};
use plimsoll_probe::note_work;
use plimsoll_types::{Attempt, Bytes, MemoryReading};
use tracing::info_span;

use crate::beside::{Beside, Made};
use crate::elsewhere::Elsewhere;
use crate::error::{ReadError, StepError, unless_out_of_memory};
use crate::gradients::WeightedAccumulator;
use crate::graph::Nodes;
use crate::guarded::GuardedStep;
use crate::outcome::StepTimes;
use crate::pages::Certain;
use crate::passes::{Passes, PredictShape};
use crate::request::{RanPart, StepPart, StepRequest};
use crate::running::RunningStates;
use crate::unread::UnreadPart;

/// The attempts at one step, and what they have gathered so far.
pub(super) struct Attempts<'a, M: Module, T> {
    guarded: &'a mut GuardedStep,
    model: &'a M,
    passes: Passes<'a, M, T>,
    /// Parts that run at once, where some may.
    beside: Option<Beside<'a, M>>,
    request: &'a StepRequest,
    accumulator: WeightedAccumulator<M>,
    n_units: u64,
    is_of_one_extent: bool,
    /// The part that is next where it is certain to fit, and what it reaches.
    certain: Option<(Range<usize>, Certain)>,
    /// The mean loss, and that of each task.
    losses: Vec<f64>,
    parts: Vec<RanPart>,
    /// How many parts, or groups of parts that ran at once, have ended.
    n_groups: usize,
    /// What the passes of each part have brought beside its gradients.
    brought: Vec<T>,
    /// Bytes in use before the first part.
    resident: Bytes,
    /// Bytes in use after the last part that ran.
    in_use: Bytes,
    peak: Bytes,
    /// What the forward pass of the part under way changes in the model, from before it, where another has run already.
    before: Option<RunningStates>,
    /// Whether what is read of the parts is read with the step.
    reads_once: bool,
    /// That, of each part that has run.
    unread: Vec<UnreadPart>,
    times: StepTimes,
    begun: Instant,
    /// What all attempts took.
    inside: Duration,
}

impl<'a, M: Module, T> Attempts<'a, M, T> {
    pub(super) fn new(
        guarded: &'a mut GuardedStep,
        model: &'a M,
        passes: Passes<'a, M, T>,
        request: &'a StepRequest,
        (resident, probe): (Bytes, Duration),
    ) -> Self {
        let n_units = request.n_units(0..request.units.len());
        let side_by_side = passes.side_by_side.filter(|_| guarded.runs_beside(model));
        let (waiting, has_large_graph) = (guarded.waiting(model), guarded.has_large_graph());
        Self {
            guarded,
            model,
            passes,
            beside: side_by_side.map(|how| Beside::new(how, waiting, has_large_graph)),
            request,
            accumulator: request.accumulator(),
            n_units,
            is_of_one_extent: request.is_of_one_extent(),
            certain: None,
            losses: Vec::new(),
            parts: Vec::new(),
            n_groups: 0,
            brought: Vec::new(),
            resident,
            in_use: resident,
            peak: Bytes::ZERO,
            before: None,
            reads_once: false,
            unread: Vec::new(),
            times: StepTimes { probe, ..StepTimes::default() },
            begun: Instant::now(),
            inside: Duration::ZERO,
        }
    }

    /// Reads parts with the step for as long as they are certain to fit, where the device works beside the host: waiting for
    /// each costs more than doing the step once more when one has failed after all.
    pub(super) fn reading_once(self) -> Self {
        Self { reads_once: self.guarded.is_silent(), ..self }
    }

    /// Says what is known of a part.
    pub(super) fn ahead(&mut self, samples: &Range<usize>, predict: PredictShape<'_>) -> Ahead {
        let (shape, capacity) = (self.request.part(samples).shape(), self.request.budget.capacity);
        if let Some(beside) = &mut self.beside {
            if beside.has_made(samples) {
                return Ahead { shape: None, upper: None, too_much: None };
            }
            beside.gather(samples, self.request, predict, self.in_use);
        }
        // Each part but the first finds the gradients of those before it.
        let (predicted, budget) = (predict(shape, self.in_use), self.request.budget.budget);
        let certain = predicted.filter(|it| it.upper <= budget).map(|alone| Certain { alone, budget });
        let is_certain = certain.is_some() && self.guarded.others().iter().all(|it| it.is_certain(shape));
        self.reads_once &= is_certain;
        self.certain = certain.map(|it| (samples.clone(), it));
        let (is_beyond, too_much) = self.guarded.beyond_elsewhere(shape);
        // What is too much on one device is too much.
        let upper = if is_beyond { Some(Bytes::MAX) } else { predicted.map(|it| it.upper) };
        let too_much = too_much.or(self.guarded.too_much(shape, self.in_use, capacity));
        Ahead { shape: Some(shape), upper, too_much }
    }

    /// Runs a part, and cleans up where it ran out of memory.
    pub(super) fn run(&mut self, samples: &Range<usize>) -> Result<Happened, StepError> {
        let start = Instant::now();
        let part = self.request.part(samples);
        let _span = info_span!("attempt", shape = %part.shape()).entered();
        let tried = if let Some(made) = self.made_beside(&part)? {
            self.take(made)
        } else {
            self.before = (!self.parts.is_empty()).then(|| RunningStates::of(self.model));
            self.try_part(&part)
        };
        self.inside += start.elapsed();
        tried
    }

    /// Returns what a part has made beside others, where it may run so; they run here where it is the first of them.
    fn made_beside(&mut self, part: &StepPart) -> Result<Option<Made>, StepError> {
        let Some(beside) = &mut self.beside else { return Ok(None) };
        if beside.is_gathered(&part.samples) {
            beside.prepare(self.model);
            let resident = self.guarded.open_window(part.shape(), None)?.0.in_use;
            note_work(format_args!("{} and others beside it, with gradients", part.shape()));
            let ran = unless_out_of_memory(|| beside.run(self.request, &self.accumulator, resident))?;
            let peak = self.guarded.read()?.peak;
            if ran.is_none() || self.request.budget.capacity < peak {
                // One after the other, each shows by itself what it needs.
                self.guarded.failures.extend(beside.beyond());
                self.beside = None;
                return Ok(None);
            }
            self.peak = self.peak.max(peak);
        }
        Ok(beside.take(&part.samples))
    }

    /// Adds what a part has made beside others.
    fn take(&mut self, made: Made) -> Result<Happened, StepError> {
        let Made { part, gradients, unread, need, nodes, waiting, resident, of_group, is_last, .. } = made;
        self.guarded.note_beside(waiting, nodes);
        let n_units = self.request.n_units(part.samples.clone());
        let losses = match self.check_time(|guarded| unread.read(guarded.probe())) {
            Ok(losses) => losses,
            Err(ReadError::Other(error)) => return Err(*error),
            Err(_) => return Ok(Happened::SumFailed),
        };
        self.accumulator.add(self.model, gradients);
        self.add_losses(&losses, n_units);
        let (peak, group, beside) = (Some(resident.saturating_add(need)), self.n_groups, Some(of_group));
        // Only where peaks are exact do parts run side by side.
        self.parts.push(RanPart { part, resident, peak, page: Bytes::ZERO, nodes, group, beside });
        if is_last {
            self.n_groups += 1;
            // Adding them takes memory too; what follows has a high-water mark of its own, which is not that of all of these.
            self.peak = self.peak.max(self.probe_time(|guarded| guarded.read())?.peak);
            self.in_use = self.probe_time(GuardedStep::begin_window)?.in_use;
        }
        Ok(Happened::Ran)
    }

    fn try_part(&mut self, part: &StepPart) -> Result<Happened, StepError> {
        let (shape, n_units) = (part.shape(), self.request.n_units(part.samples.clone()));
        if !self.is_of_one_extent {
            // The pages of another shape would hide what this one needs.
            self.guarded.pages.begin();
            self.guarded.others_mut().iter_mut().for_each(Elsewhere::begin_pages);
        }
        let certain = self.certain.take().filter(|(samples, _)| *samples == part.samples).map(|(_, it)| it);
        let (found, among) = self.probe_time(|guarded| guarded.open_window(shape, certain))?;
        let (resident, group) = (found.in_use, self.n_groups);
        self.probe_time(|guarded| guarded.open_elsewhere(part, group))?;
        let (mut attempt, nodes) = (Attempt::new(shape, resident), Nodes::count());
        note_work(format_args!("{shape} with gradients"));
        // CubeCL panics where it has no memory to pass a kernel its arguments.
        let (passes, model, accumulator) = (self.passes, self.model, &self.accumulator);
        let made = unless_out_of_memory(|| {
            (passes.one_by_one)(model, part.samples.clone()).gradients(accumulator, model, n_units)
        });
        let made_nodes = nodes.made();
        if self.guarded.pages.are_exact() {
            attempt.nodes = made_nodes;
        }
        let Some((gradients, loss, brought)) = made? else {
            return self.clear(attempt, ReadError::OutOfMemory { refused: None }, None);
        };
        let unread = self.guarded.unread(self.model, loss, &gradients);
        let (losses, unread) = if self.reads_once {
            (Vec::new(), Some(unread))
        } else {
            match self.check_time(|guarded| unread.read(guarded.probe())) {
                Ok(losses) => (losses, None),
                Err(error) => return self.clear(attempt, error, Some((gradients, brought))),
            }
        };
        let (is_unread, flushed) = (unread.is_some(), self.guarded.device.clone());
        let start = Instant::now();
        // What was not read yet is handed to the device here, and a panic for want of memory is that of the part.
        let read = unless_out_of_memory(|| {
            if is_unread {
                drop(flushed.flush());
            }
            self.guarded.read()
        });
        // A device that works beside the host answers when it has taken what it was handed, which is the work of the passes.
        let waits = is_unread && !self.guarded.pages.are_exact();
        *(if waits { &mut self.times.check } else { &mut self.times.probe }) += start.elapsed();
        let Some(MemoryReading { peak, page, .. }) = read.and_then(Option::transpose)? else {
            return self.clear(attempt, ReadError::OutOfMemory { refused: None }, Some((gradients, brought)));
        };
        if self.request.budget.capacity < peak {
            // Pages that an earlier, larger part reserved say nothing of this one.
            let attempt = Attempt { peak: self.guarded.pages.shows(shape).then_some(peak), page, ..attempt };
            return self.clear(attempt, ReadError::OutOfMemory { refused: None }, Some((gradients, brought)));
        }
        if !self.probe_time(|guarded| guarded.fits_elsewhere(made_nodes))? {
            return self.clear_elsewhere((gradients, brought));
        }
        let (accumulator, model, guarded) = (&mut self.accumulator, self.model, &mut self.guarded);
        let probe_time = &mut self.times.probe;
        // Adding takes memory too, and the next part starts a new high-water mark.
        let added = unless_out_of_memory(|| {
            accumulator.add(model, gradients);
            let start = Instant::now();
            let reading = guarded.read().and_then(|it| guarded.close_elsewhere().map(|()| it));
            *probe_time += start.elapsed();
            reading
        });
        let Some(MemoryReading { in_use, peak, page, .. }) = added.and_then(Option::transpose)? else {
            // Nobody knows what is in the sum now.
            return Ok(Happened::SumFailed);
        };
        self.add_losses(&losses, n_units);
        self.unread.extend(unread.map(|unread| UnreadPart { attempt, unread, n_units }));
        self.brought.extend(brought);
        (self.in_use, self.peak) = (in_use, self.peak.max(peak));
        let peak = self.guarded.pages.read_of(shape, peak);
        let (part, nodes) = (part.clone(), attempt.nodes);
        self.parts.push(RanPart { part, resident, peak, page, nodes, group, beside: among });
        self.n_groups += 1;
        Ok(Happened::Ran)
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
    /// A part is worth another try: without the pages of earlier ones it may fit, and what the device refused it may grant
    /// when whoever else held the memory is gone.
    fn clear(
        &mut self,
        mut attempt: Attempt,
        error: ReadError,
        made: Option<(GradientsParams, Option<T>)>,
    ) -> Result<Happened, StepError> {
        drop(made);
        self.reads_once = false;
        self.before.as_mut().unwrap_or(&mut self.guarded.before).put_back(self.model);
        let failure = match error {
            ReadError::Other(error) => return Err(*error),
            ReadError::OutOfMemory { refused } => {
                attempt.refused = refused;
                let is_worth_a_retry = attempt.peak.is_none() || self.guarded.pages.were_shared();
                Failure::OutOfMemory { needed: attempt.peak, is_worth_a_retry }
            }
            ReadError::NeverFits { allocation, largest } => {
                attempt.refused = Some(allocation);
                Failure::NeverFits { allocation, largest }
            }
        };
        self.guarded.failures.push(attempt);
        self.probe_time(GuardedStep::give_back)?;
        Ok(Happened::Failed(failure))
    }

    /// Does what [`Self::clear`] does after a part that fits here, and did not fit on another device, which has noted it.
    fn clear_elsewhere(&mut self, made: (GradientsParams, Option<T>)) -> Result<Happened, StepError> {
        drop(made);
        self.reads_once = false;
        self.before.as_mut().unwrap_or(&mut self.guarded.before).put_back(self.model);
        let (needed, is_worth_a_retry) = self.guarded.short().map_or((None, true), Elsewhere::lacked);
        self.probe_time(GuardedStep::give_back)?;
        Ok(Happened::Failed(Failure::OutOfMemory { needed, is_worth_a_retry }))
    }

    /// Says of the device that decides what stands in the way.
    pub(super) fn explained(&self, error: StepError) -> StepError {
        match self.guarded.short() {
            Some(other) => other.explained(error),
            None => error,
        }
    }

    pub(super) fn weights_are_whole(&self) -> Result<bool, StepError> {
        self.guarded.weights_are_whole(self.model)
    }

    fn check_time<R>(&mut self, work: impl FnOnce(&mut GuardedStep) -> R) -> R {
        let start = Instant::now();
        let result = info_span!("check").in_scope(|| work(self.guarded));
        (self.times.check, self.times.n_reads) = (self.times.check + start.elapsed(), self.times.n_reads + 1);
        result
    }

    fn probe_time<R>(&mut self, work: impl FnOnce(&mut GuardedStep) -> R) -> R {
        let start = Instant::now();
        let result = work(self.guarded);
        self.times.probe += start.elapsed();
        result
    }
}
