//! Less memory for more time, when one sample alone does not fit.

use burn::module::Module;
use plimsoll_step::StepError;
use plimsoll_types::{Event, GradientCheckpointing};

use super::Run;
use crate::error::TrainError;
use crate::job::Job;

impl<J: Job> Run<'_, J> {
    /// Switches gradient checkpointing on and says so, unless it is on already or must not be.
    pub(super) fn spare_memory(&mut self) -> Result<bool, TrainError> {
        if self.controller.is_checkpointing() || !self.config.may_checkpoint || self.config.deterministic {
            return Ok(false);
        }
        let planned = self.plan_anew()?;
        self.answer(Event::GradientCheckpointing(GradientCheckpointing { step: self.step, planned }))?;
        self.recompute_activations()?;
        Ok(true)
    }

    /// Plans the steps to come, where plans are wanted; without one they tell by themselves what they need.
    fn plan_anew(&mut self) -> Result<Option<String>, TrainError> {
        let step = self.step;
        let Some(plan) = self.plan_sparing.as_deref_mut() else { return Ok(None) };
        let failed = |source| TrainError::Step { step, source };
        // A dry run would drop what is still queued.
        self.device.sync().map_err(|error| failed(StepError::Device(error.to_string())))?;
        self.guarded.give_back().map_err(failed)?;
        let planned = plan();
        // What it has left reserved is no step's.
        self.guarded.forget_pages();
        match planned.map(|needs| serde_json::to_string(&needs)) {
            Ok(Ok(needs)) => return Ok(Some(needs)),
            Ok(Err(error)) => self.warn_of_no_plan(&error),
            Err(error) => self.warn_of_no_plan(&error),
        }
        Ok(None)
    }

    fn warn_of_no_plan(&mut self, error: &dyn std::error::Error) {
        (self.warn)(&format!("no plan of steps that recompute activations, the steps will tell: failed to {error}"));
    }

    /// Moves the model to the device that recomputes activations.
    ///
    /// Which it is stands in each tensor, and tensors of both kinds do not mix, so the model is made anew from the record
    /// of the old one; the optimizer's state has no graph, and stays.
    pub(super) fn recompute_activations(&mut self) -> Result<(), TrainError> {
        let step = self.step;
        let failed = |reason: String| TrainError::Step { step, source: StepError::Device(reason) };
        let device = self.device.clone().gradient_checkpointing();
        let record = self.state.model().clone().into_record();
        let model = self.job.init(&device).try_load_record(record).map_err(|error| failed(error.to_string()))?;
        self.guarded.set_device(device.clone());
        self.state.set_model(model);
        self.device = device;
        Ok(())
    }
}
