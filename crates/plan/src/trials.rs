//! Real steps of blank batches.

mod step;

use std::rc::Rc;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Tensor;
use plimsoll_predict::PartReading;
use plimsoll_probe::Probe;
use plimsoll_step::{GuardedStep, OptimizerRecovery, StepError, TrainState, run_forward};
use plimsoll_types::{Attempt, Bytes, Observation, StepShape};

pub use self::step::Ran;
use crate::{Blank, RealSteps, Trial, TrialError, micro_batches};

/// Runs real steps with a model and an optimizer of its own: to measure what a step needs, not to train.
///
/// The steps are those of a run: the guarded step, and the optimizer's step with a learning rate of zero. Their batches are
/// blank, or those of whoever calls [`Self::take`].
pub struct BlankTrials<B: Blank> {
    blank: Rc<B>,
    guarded: GuardedStep,
    /// Made by the first step.
    state: Option<TrainState<B::Model>>,
    recovery: OptimizerRecovery,
    capacity: Bytes,
}

impl<B: Blank> BlankTrials<B> {
    /// Prepares for steps on the device, which `probe` measures; the first one makes model and optimizer.
    ///
    /// # Errors
    ///
    /// [`TrialError::Step`] when the device does not tell its capacity.
    pub fn try_new(blank: B, probe: Box<dyn Probe>) -> Result<Self, TrialError> {
        let capacity = probe.capacity().map_err(StepError::from)?;
        let guarded = GuardedStep::new(probe, blank.device().clone());
        Ok(Self { blank: Rc::new(blank), guarded, state: None, recovery: OptimizerRecovery::Restore, capacity })
    }

    /// Keeps what a run with this recovery keeps while the optimizer steps.
    #[must_use]
    pub fn recovering(self, recovery: OptimizerRecovery) -> Self {
        Self { recovery, ..self }
    }

    /// Returns the model; makes it before the first step.
    pub fn model(&mut self) -> &B::Model {
        self.state.get_or_insert_with(|| self.blank.start()).model()
    }
}

impl<B: Blank> RealSteps for BlankTrials<B> {
    fn train(&mut self, shape: StepShape, n_samples: u32) -> Result<Trial, TrialError> {
        let ran = self.blank_parts(&micro_batches(shape, n_samples.max(shape.samples)))?;
        self.whole(shape, ran)
    }

    fn blank(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        let ran = self.blank_parts(&[shape; step::ACCUMULATED])?;
        self.whole(shape, ran)
    }

    fn infer(&mut self, shape: StepShape) -> Result<Trial, TrialError> {
        let model = self.model().valid();
        forward_trial(self.guarded.probe_mut(), self.capacity, shape, || self.blank.forward(&model, shape))
    }

    fn resident(&self) -> Result<Bytes, TrialError> {
        Ok(self.guarded.read()?.in_use)
    }

    fn forget(&mut self) -> Result<(), TrialError> {
        self.state = None;
        Ok(self.guarded.probe_mut().cleanup().map_err(StepError::from)?)
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
        return Err(TrialError::OutOfMemory(Attempt { peak, page: reading.page, ..Attempt::new(shape, resident) }));
    }
    let (reserved, peak, seconds) = (reading.reserved, reading.peak, start.elapsed().as_secs_f64());
    let part = PartReading::of(Observation { shape, resident, peak }, probe.has_exact_peak(), reading.page);
    let part = part.with_packed(reading.packed);
    Ok(Trial { shape, resident, in_use: resident, reserved, peak, part, seconds })
}
