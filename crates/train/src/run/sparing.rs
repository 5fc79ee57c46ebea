//! Less memory for more time, when one sample alone does not fit.

use burn::module::Module;
use plimsoll_types::{Event, GradientCheckpointing};

use super::{Run, present};
use crate::error::TrainError;
use crate::job::Job;
use crate::step::StepError;

impl<J: Job> Run<'_, J> {
    /// Switches gradient checkpointing on and says so, unless it is on already or must not be.
    pub(super) fn spare_memory(&mut self) -> Result<bool, TrainError> {
        if self.controller.is_checkpointing() || !self.config.may_checkpoint || self.config.deterministic {
            return Ok(false);
        }
        self.answer(Event::GradientCheckpointing(GradientCheckpointing { step: self.step, planned: None }))?;
        self.recompute_activations()?;
        Ok(true)
    }

    /// Moves the model to the device that recomputes activations.
    ///
    /// Which it is stands in each tensor, and tensors of both kinds do not mix, so the model is made anew from the record
    /// of the old one; the optimizer's state has no graph, and stays.
    pub(super) fn recompute_activations(&mut self) -> Result<(), TrainError> {
        let step = self.step;
        let failed = |reason: String| TrainError::Step { step, source: StepError::Device(reason) };
        let device = self.device.clone().gradient_checkpointing();
        let record = present(self.model.as_ref()).clone().into_record();
        let model = self.job.init(&device).try_load_record(record).map_err(|error| failed(error.to_string()))?;
        self.guarded.set_device(device.clone());
        (self.model, self.device) = (Some(model), device);
        Ok(())
    }
}
