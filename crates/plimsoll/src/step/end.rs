//! The end of a step: the optimizer's, or none.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use plimsoll_step::{Ran, StepError, StepOutcome, Update};
use plimsoll_types::Bytes;

use super::Step;
use crate::average::Average;
use crate::done::{Done, OnDevice};
use crate::error::Error;
use crate::scale::LossScale;

impl<M: Module> Step<M> {
    /// Lets the optimizer step; returns none where the step is to be attempted again.
    pub(super) fn commit(&mut self, ran: Ran<()>, rate: &ModuleLearningRate) -> Result<Option<Done>, Error> {
        // It begins with the weights from before the first step.
        let begun = self.decay.filter(|_| self.average.is_none());
        let begun = begun.map(|decay| Average::new(decay, self.state.model()));
        let committed = self.steps.commit(ran, |guarded, gradients, (capacity, recovery)| {
            guarded.commit(&mut self.state, Update { gradients, rate: rate.clone(), capacity, recovery })
        });
        let Some((mut ran, mut reading)) = committed? else { return Ok(None) };
        self.n_steps += 1;
        self.average = self.average.take().or(begun);
        if let Some(average) = &mut self.average {
            average.follow(self.state.model());
            reading = self.steps.guarded().read().unwrap_or(reading);
        }
        self.scale.iter_mut().for_each(LossScale::on_step);
        self.steps.learn(&mut ran, reading);
        let Ran { outcome, request, changes_statistics, .. } = ran;
        let StepOutcome { loss, gradient_norm, parts, peak, .. } = outcome;
        let budget = request.budget.budget;
        if let Some(limits) = &self.limits {
            limits.follow(&self.steps, reading.in_use, budget);
        }
        let (loss, parts) = (loss.unwrap_or(f64::NAN), parts.into_iter().map(|it| it.part).collect());
        let (failures, devices, is_skipped) = (Vec::new(), self.on_devices(peak, budget), false);
        Ok(Some(Done { loss, gradient_norm, parts, failures, peak, budget, devices, is_skipped, changes_statistics }))
    }

    /// Says of each device what a step reached there, where there are several.
    fn on_devices(&self, peak: Bytes, budget: Bytes) -> Vec<OnDevice> {
        let guarded = self.steps.guarded();
        if guarded.others().is_empty() {
            return Vec::new();
        }
        let first = OnDevice { device: guarded.probe().name(), peak, budget };
        let mut devices: Vec<_> = [first].into_iter().chain(guarded.others().iter().map(OnDevice::of)).collect();
        devices.sort_by(OnDevice::by_tightness);
        devices
    }

    /// Passes over a step whose gradient is not finite, where a scale may be the reason.
    pub(super) fn skip(&mut self, loss: f64, gradient_norm: f64) -> Result<Done, Error> {
        let may_overflow = loss.is_finite() && self.scale.as_mut().is_some_and(LossScale::on_overflow);
        if !may_overflow {
            return Err(StepError::NotFinite { loss: Some(loss), gradient_norm }.into());
        }
        self.n_skipped += 1;
        let (parts, failures, changes_statistics) = (Vec::new(), Vec::new(), false);
        let (peak, budget) = (self.steps.guarded().read()?.peak, self.steps.budget()?.budget);
        let devices = self.on_devices(peak, budget);
        Ok(Done { loss, gradient_norm, parts, failures, peak, budget, devices, is_skipped: true, changes_statistics })
    }
}
