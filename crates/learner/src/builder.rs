//! How steps are to be run.

use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Bytes, Features};

use crate::error::LearnerError;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::steps::Steps;
use crate::strategy::GuardedStrategy;

/// Trains on a device under a budget; the model may lie on another, as with Burn's own strategies.
pub fn strategy(device: &Device) -> StrategyBuilder {
    StrategyBuilder { device: device.clone(), plan: Plan::default() }
}

/// How steps are to be run; see [`strategy`].
#[derive(Clone, Debug)]
pub struct StrategyBuilder {
    device: Device,
    plan: Plan,
}

impl StrategyBuilder {
    /// Aims at this share of the capacity, above 0 and at most 1; 0.9 by default.
    #[must_use]
    pub fn budget(mut self, share: f64) -> Self {
        self.plan.rules.budget = share;
        self
    }

    /// Uses no more than this, whatever the device has.
    #[must_use]
    pub fn capacity(mut self, capacity: Bytes) -> Self {
        self.plan.capacity = Some(capacity);
        self
    }

    /// Takes the tensors of a micro-batch for combinations of these, over one axis, the length of a sample; by default they have
    /// a size of their own or so much for each sample, each of which may grow with the length and with its square.
    ///
    /// What grows faster, such as a volume with its side, has bounds that do not hold, unless it says so by
    /// [`Features::powers`]`(3)`.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.plan.features = features;
        self
    }

    /// Runs micro-batches of so many samples, from 1, in halves where they do not fit, instead of as many as are certain to fit.
    #[must_use]
    pub fn micro_batch(mut self, n_samples: u32) -> Self {
        self.plan.rules.micro_batch = Some(n_samples);
        self
    }

    /// Runs every step in one part, or not at all: for a model in which a sample's result depends on the samples beside it,
    /// as under a batch normalisation, where that is to stay so.
    #[must_use]
    pub fn in_one_part(mut self) -> Self {
        self.plan.rules.may_divide = false;
        self
    }

    /// Shortens a gradient whose global norm, over all parameters, is above this, which is above 0.
    ///
    /// Clipping by value or by the norm of each tensor is a setting of Burn's optimizers.
    #[must_use]
    pub fn max_norm(mut self, norm: f64) -> Self {
        self.plan.rules.max_norm = Some(norm);
        self
    }

    /// Seeds the device before each step from this, its epoch and its number, so that what is random in a step, such as a
    /// dropout, is the same in a training that goes on from a checkpoint.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.rules.seed = Some(seed);
        self
    }

    /// Takes the loss for a mean over all positions of a micro-batch's samples, such as their tokens, and not over the samples:
    /// each then counts in the step's mean as its length.
    #[must_use]
    pub fn mean_over_positions(mut self) -> Self {
        self.plan.rules.by_length = true;
        self
    }

    /// Keeps a copy of weights, moments and schedule while the optimizer steps: where that runs out of memory, the step is taken
    /// again from it, once; where it does again, the training ends with the learner as it was before the step.
    #[must_use]
    pub fn keeping_a_copy(mut self) -> Self {
        self.plan.rules.recovery = OptimizerRecovery::Keep;
        self
    }

    /// Recomputes activations in the backward pass where that costs little, as
    /// [`SupervisedTraining::gradient_checkpointing`](burn::train::SupervisedTraining::gradient_checkpointing) does, which Burn
    /// does not pass on to a strategy of one's own.
    #[must_use]
    pub fn gradient_checkpointing(self) -> Self {
        let device = if self.device.is_autodiff() { self.device } else { self.device.autodiff() };
        Self { device: device.gradient_checkpointing(), ..self }
    }

    /// Opens what measures the device.
    ///
    /// # Errors
    ///
    /// [`LearnerError::Device`] for a device of a kind that is not measured; [`LearnerError::Setting`];
    /// [`LearnerError::Predict`] for features over several axes;
    /// [`LearnerError::Probe`] when a driver is missing.
    pub fn build<O: 'static>(self) -> Result<Arc<GuardedStrategy<O>>, LearnerError> {
        let Self { device, plan } = self;
        let device = if device.is_autodiff() { device } else { device.autodiff() };
        // Whoever cannot measure is told before there is a training.
        drop(Steps::open(&device, plan, Figures::default())?);
        Ok(Arc::new(GuardedStrategy { device, plan, figures: Figures::default(), loaders: Mutex::default() }))
    }
}
