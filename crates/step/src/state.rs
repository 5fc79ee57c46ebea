//! What an optimizer's step changes.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};

/// A model and its optimizer.
#[derive(Clone)]
pub struct TrainState<M> {
    /// Empty while the optimizer moves it, and after a step that has lost it.
    model: Option<M>,
    optimizer: ModuleOptimizer,
}

impl<M: Module> TrainState<M> {
    /// Begins with a model, and an optimizer that may have a state of its own already.
    pub fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        Self { model: Some(model), optimizer }
    }

    /// Returns the model.
    ///
    /// # Panics
    ///
    /// After a [`commit`](crate::GuardedStep::commit) that has lost it.
    pub fn model(&self) -> &M {
        self.model.as_ref().unwrap_or_else(|| unreachable!("a state that was lost is replaced before it is used"))
    }

    /// Whether a [`commit`](crate::GuardedStep::commit) has lost the model.
    pub fn is_lost(&self) -> bool {
        self.model.is_none()
    }

    /// Gives the model back, unless it is lost.
    pub fn into_model(self) -> Option<M> {
        self.model
    }

    /// Returns the optimizer.
    pub fn optimizer(&self) -> &ModuleOptimizer {
        &self.optimizer
    }

    /// Puts another model in the place of the one that is there; the optimizer's state stays.
    pub fn set_model(&mut self, model: M) {
        self.model = Some(model);
    }

    /// Lets go of everything, for what is loaded instead.
    pub fn clear(&mut self, optimizer: ModuleOptimizer) {
        (self.model, self.optimizer) = (None, optimizer);
    }

    /// Lets the optimizer step.
    pub(crate) fn update(&mut self, rate: ModuleLearningRate, gradients: GradientsParams) {
        self.model = self.model.take().map(|model| self.optimizer.step(rate, model, gradients));
    }

    /// Lets go of a model that is none any more.
    pub(crate) fn lose(&mut self) {
        self.model = None;
    }
}
