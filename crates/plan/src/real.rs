//! Real steps, for whoever measures them.

use plimsoll_predict::{PartReading, Peak, Phase};
use plimsoll_probe::Probe;
use plimsoll_step::StepError;
use plimsoll_types::{Attempt, Bytes, StepShape};

use crate::PlanError;

/// Runs real steps of chosen shapes with a model and an optimizer of its own: to measure what a step needs, not to train.
pub trait RealSteps {
    /// Runs one optimizer step of `n_samples` in micro-batches of this shape.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a micro-batch did not fit, [`TrialError::Input`] when there is nothing to run on.
    fn train(&mut self, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError>;

    /// Runs one optimizer step of blank batches of this shape, with as many parts as accumulate gradients the way a step
    /// of many does; no sample is read.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when a part did not fit.
    fn blank(&mut self, shape: StepShape) -> Result<Trial, TrialError>;

    /// Runs one forward pass of this shape without gradients, and reads its results.
    ///
    /// # Errors
    ///
    /// [`TrialError::OutOfMemory`] when it did not fit.
    fn infer(&mut self, shape: StepShape) -> Result<Trial, TrialError>;

    /// Returns what is in use before the next step.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when memory cannot be measured.
    fn resident(&self) -> Result<Bytes, TrialError>;

    /// Drops the model and the optimizer, and returns their memory; the next step makes new ones.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when the device refuses.
    fn forget(&mut self) -> Result<(), TrialError>;

    /// Runs one step of a phase; a forward pass takes no more than the samples of its shape.
    ///
    /// # Errors
    ///
    /// Those of [`Self::train`] and [`Self::infer`].
    fn run(&mut self, phase: Phase, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError> {
        match phase {
            Phase::Train => self.train(shape, n_samples),
            Phase::Infer => self.infer(shape),
        }
    }
}

/// Opens a probe of the device, capped where a capacity is set.
pub type OpenProbe<'a> = &'a dyn Fn() -> Result<Box<dyn Probe>, PlanError>;

/// Begins real steps anew.
pub type OpenSteps<'a> = &'a dyn Fn() -> Result<Box<dyn RealSteps + 'a>, PlanError>;

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
            Peak::Reserved { bytes, page } => Peak::Reserved { bytes: bytes.saturating_add(left), page },
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
    /// What it is to run on is not to be had: samples, or buffers for them.
    #[error(transparent)]
    Input(Box<dyn std::error::Error + Send + Sync>),
    /// The step failed otherwise.
    #[error(transparent)]
    Step(#[from] StepError),
}

fn needed(attempt: Attempt) -> String {
    attempt.peak.map_or(String::new(), |peak| format!(", it needed {peak}"))
}

/// Says which step it was that failed while a plan was made.
pub(crate) fn failed(shape: StepShape, error: TrialError) -> PlanError {
    PlanError::Step { shape, source: error.into() }
}
