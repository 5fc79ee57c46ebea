//! Real steps of chosen shapes.

mod step;

use std::sync::Arc;
use std::time::Instant;

use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use plimsoll_predict::{PartReading, Peak, Phase};
use plimsoll_probe::Probe;
use plimsoll_step::{GuardedStep, OptimizerRecovery, StepError, TrainState, run_forward};
use plimsoll_types::{Attempt, Bytes, Observation, StepShape};

use crate::job::Job;
use crate::loader::{LoaderConfig, LoaderError, twice};
use crate::source::{Draw, Item, Lengths, Source, SourceError};

pub use self::step::Ran;

/// Runs real steps of a job with a model and an optimizer of its own: to measure what a step needs, not to train.
///
/// The steps are those of a run: real samples, the guarded step, and the optimizer's step with a learning rate of zero.
pub struct Trials<'a, J: Job> {
    job: &'a J,
    source: Arc<J::Source>,
    device: Device,
    guarded: GuardedStep,
    /// Made by the first step.
    state: Option<TrainState<J::Model>>,
    recovery: OptimizerRecovery,
    capacity: Bytes,
    /// Those of a run's loader, where it is to be measured too.
    buffers: Vec<<J::Source as Source>::Buffer>,
    /// What each of them has room for.
    room: StepShape,
}

/// What a real step showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Shape of the micro-batch.
    pub shape: StepShape,
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// Bytes in use after it: more than before it, where the step made the optimizer's state.
    pub in_use: Bytes,
    /// What the allocator holds after it.
    pub reserved: Bytes,
    /// High-water mark of the step.
    pub peak: Bytes,
    /// What a predictor learns of it: the most that a part of its shape found in use, the gradients of the parts before it
    /// included, and what one needs at most on top of that.
    pub part: PartReading,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl Trial {
    /// Returns a reading that is not below that of the next step of the shape: what this step left behind was not there
    /// before it.
    #[must_use]
    pub fn steady(self) -> Self {
        let left = self.in_use.saturating_sub(self.resident);
        let PartReading { before, peak, .. } = self.part;
        let peak = match peak {
            Peak::Exact(peak) => Peak::Exact(peak.saturating_add(left)),
            Peak::Reserved(peak) => Peak::Reserved(peak.saturating_add(left)),
        };
        let part = PartReading { before: before.saturating_add(left), peak, ..self.part };
        Self { resident: self.resident.max(self.in_use), peak: self.peak.saturating_add(left), part, ..self }
    }
}

/// Why a trial did not run.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// It needed more than there is.
    #[error("run a step of shape {}: out of memory{}", .0.shape, needed(*.0))]
    OutOfMemory(Attempt),
    /// The buffers of the run do not fit into their limit.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A sample could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The step failed otherwise.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// Reads the first samples that fit an edge, again and again where there are too few.
fn samples<S: Source>(source: &S, n: u32, edge: u32) -> Result<(Draw, Vec<S::Item>), SourceError> {
    let (n, cut) = (n as usize, source.lengths() == Lengths::Cut);
    // One that cannot be read is no reason not to measure; the run will say so.
    let fitting = |id| twice(|| source.read(0, id)).ok().filter(|item| cut || item.length() <= edge);
    let found = (0..source.n_samples()).filter_map(|id| Some((id, fitting(id)?)));
    let (mut ids, mut items): (Vec<_>, Vec<_>) = found.take(n).unzip();
    let n_found = ids.len();
    if n_found == 0 {
        let reason = format!("no sample that can be read is short enough for an edge of {edge}");
        return Err(SourceError { sample_id: 0, reason });
    }
    for at in n_found..n {
        items.push(twice(|| source.read(0, ids[at % n_found]))?);
        ids.push(ids[at % n_found]);
    }
    Ok((Draw::of_edge(0, ids, edge), items))
}

fn needed(attempt: Attempt) -> String {
    attempt.peak.map_or(String::new(), |peak| format!(", it needed {peak}"))
}

impl<'a, J: Job> Trials<'a, J> {
    /// Prepares for steps on a device; the first one makes model and optimizer.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when the device does not tell its capacity.
    pub fn try_new(job: &'a J, device: Device, probe: Box<dyn Probe>) -> Result<Self, TrialError> {
        let capacity = probe.capacity().map_err(StepError::from)?;
        let guarded = GuardedStep::new(probe, device.clone());
        let (buffers, room, recovery) = (Vec::new(), StepShape::new(0, 0), OptimizerRecovery::Restore);
        let source = job.source();
        Ok(Self { job, source, device, guarded, state: None, recovery, capacity, buffers, room })
    }

    /// Keeps what a run with this recovery keeps while the optimizer steps.
    #[must_use]
    pub fn recovering(self, recovery: OptimizerRecovery) -> Self {
        Self { recovery, ..self }
    }

    /// Holds the host buffers that the loader of a run holds, so that what is resident is what it is in a run.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferLimit`] when fewer than two steps fit into the limit.
    pub fn hold_buffers(&mut self, config: &LoaderConfig) -> Result<(), LoaderError> {
        self.room = config.largest();
        self.buffers = config.buffers(&*self.source)?;
        Ok(())
    }

    /// Returns where the samples come from.
    pub(crate) fn source(&self) -> Arc<J::Source> {
        Arc::clone(&self.source)
    }

    /// Drops the model and the optimizer, and returns their memory; the next step makes new ones.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when the device refuses.
    pub fn forget(&mut self) -> Result<(), TrialError> {
        self.state = None;
        Ok(self.guarded.probe_mut().cleanup().map_err(StepError::from)?)
    }

    /// Returns what is in use before the next step.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when memory cannot be measured.
    pub(crate) fn resident(&self) -> Result<Bytes, TrialError> {
        Ok(self.guarded.read()?.in_use)
    }

    /// Runs one step of a phase; a forward pass takes no more than the samples of its shape.
    ///
    /// # Errors
    ///
    /// Those of [`Self::train`] and [`Self::infer`].
    pub fn run(&mut self, phase: Phase, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError> {
        match phase {
            Phase::Train => self.train(shape, n_samples),
            Phase::Infer => self.infer(shape),
        }
    }

    /// Runs one optimizer step of `n_samples` in micro-batches of this shape.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a micro-batch did not fit, [`TrialError::Source`] when a sample cannot be read.
    pub fn train(&mut self, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError> {
        let n_samples = n_samples.max(shape.samples);
        let has_room = n_samples <= self.room.samples && shape.edge() <= self.room.edge();
        let held = if has_room { self.buffers.pop() } else { None };
        let is_held = held.is_some();
        let mut buffer = held.unwrap_or_else(|| self.source.buffer(StepShape::new(n_samples, shape.edge())));
        let ran = self.collate_and_step(shape, n_samples, &mut buffer);
        self.buffers.extend(Some(buffer).filter(|_| is_held));
        let Ran { trial, failures, .. } = ran?;
        self.within_capacity(Trial { shape, ..trial }, &failures)
    }

    fn collate_and_step(
        &mut self,
        shape: StepShape,
        n_samples: u32,
        buffer: &mut <J::Source as Source>::Buffer,
    ) -> Result<Ran, TrialError> {
        let (draw, items) = samples(&*self.source, n_samples, shape.edge())?;
        self.source.collate(&draw, &items, buffer)?;
        let lengths: Vec<_> = items.iter().map(Item::length).collect();
        drop(items);
        self.step(&draw, &lengths, buffer, shape.samples)
    }

    fn state(&mut self) -> &mut TrainState<J::Model> {
        self.state.get_or_insert_with(|| TrainState::new(self.job.init(&self.device), AdamConfig::new().init()))
    }

    /// Runs one forward pass of this shape without gradients, and reads its results.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when it did not fit.
    pub fn infer(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        let model = self.state().model().valid();
        let forward = || self.job.blank_forward(&model, shape, &self.device.clone().inner());
        forward_trial(self.guarded.probe_mut(), self.capacity, shape, forward)
    }
}

/// Runs something without gradients that has this shape, reads its results, and says what that took.
pub(crate) fn forward_trial(
    probe: &mut dyn Probe,
    capacity: Bytes,
    shape: StepShape,
    forward: impl FnOnce() -> Tensor<1>,
) -> Result<Trial, TrialError> {
    let start = Instant::now();
    probe.cleanup().map_err(StepError::from)?;
    probe.reset_peak().map_err(StepError::from)?;
    let resident = probe.read().map_err(StepError::from)?.in_use;
    let (reading, is_read) = run_forward(probe, shape, forward)?;
    if !is_read || capacity < reading.peak {
        let peak = Some(reading.peak).filter(|it| capacity < *it);
        return Err(TrialError::OutOfMemory(Attempt { peak, ..Attempt::new(shape, resident) }));
    }
    let (reserved, peak, seconds) = (reading.reserved, reading.peak, start.elapsed().as_secs_f64());
    let part = PartReading::of(Observation { shape, resident, peak }, probe.has_exact_peak());
    Ok(Trial { shape, resident, in_use: resident, reserved, peak, part, seconds })
}
