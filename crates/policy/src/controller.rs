//! What a policy answers, and what it may ask.

use plimsoll_types::{Budget, Decision, Knobs, Prediction, Recompute, StepShape};

use crate::{StepMeasured, StepRefused};

/// What a step of some shape would need, or `None` while nothing is known.
pub type Predict<'a> = &'a dyn Fn(StepShape) -> Option<Prediction>;

/// What the policies have in common.
pub(crate) trait Controller {
    fn on_step_done(&mut self, done: &StepMeasured, predict: Predict<'_>) -> Decision;
    fn on_step_failed(&mut self, failed: &StepRefused, predict: Predict<'_>) -> Decision;
    fn on_budget_changed(&mut self, step: u64, budget: Budget, predict: Predict<'_>) -> Decision;
    fn on_checkpointing(&mut self, recompute: Recompute);
    fn knobs(&self) -> Knobs;
    fn adjustments(&self) -> u32;
    fn oom_count(&self) -> u32;
}
