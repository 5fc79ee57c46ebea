//! How a step is to be run.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, GradientCheckpointingStrategy};
use plimsoll_predict::{Predictor, PredictorConfig};
use plimsoll_probe::open;
use plimsoll_step::{GuardedStep, OptimizerRecovery, TrainState};
use plimsoll_train::{beside_tensors, device_kind, platform, small_batch_regime};
use plimsoll_types::{Bytes, Fraction};

use crate::error::Error;
use crate::known::Known;
use crate::step::Step;

/// Runs the steps of a model and its optimizer under a budget; both lie on `device`, which has gradients.
pub fn step<M: Module>(device: &Device, model: M, optimizer: ModuleOptimizer) -> StepBuilder<M> {
    let (device, recovery) = (device.clone(), OptimizerRecovery::Restore);
    StepBuilder { device, model, optimizer, budget: 0.9, capacity: None, micro_batch: None, recovery, by_length: false }
}

/// How a step is to be run; see [`step()`].
pub struct StepBuilder<M> {
    device: Device,
    model: M,
    optimizer: ModuleOptimizer,
    budget: f64,
    capacity: Option<Bytes>,
    micro_batch: Option<u32>,
    recovery: OptimizerRecovery,
    by_length: bool,
}

impl<M: Module> StepBuilder<M> {
    /// Aims at this share of the capacity, above 0 and at most 1; 0.9 by default.
    #[must_use]
    pub fn budget(self, share: f64) -> Self {
        Self { budget: share, ..self }
    }

    /// Uses no more than this, whatever the device has.
    #[must_use]
    pub fn capacity(self, capacity: Bytes) -> Self {
        Self { capacity: Some(capacity), ..self }
    }

    /// Takes the loss for a mean over all positions of a part's samples, such as their tokens, and not over the samples: each
    /// then counts in the step's mean as its length.
    #[must_use]
    pub fn mean_over_positions(self) -> Self {
        Self { by_length: true, ..self }
    }

    /// Runs parts of so many samples, one at least, in halves where they do not fit, instead of as many as are certain to fit.
    #[must_use]
    pub fn micro_batch(self, n_samples: u32) -> Self {
        Self { micro_batch: Some(n_samples), ..self }
    }

    /// Keeps a copy of weights and moments while the optimizer steps, to go back to where that runs out of memory.
    #[must_use]
    pub fn keeping_a_copy(self) -> Self {
        Self { recovery: OptimizerRecovery::Keep, ..self }
    }

    /// Opens what measures the device.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] for a device that has no gradients, or of a kind that is not measured; [`Error::Budget`];
    /// [`Error::Probe`] when a driver is missing.
    pub fn build(self) -> Result<Step<M>, Error> {
        let device = self.device;
        let refused = |reason| Error::Device { device: format!("{device:?}"), reason };
        if !device.is_autodiff() {
            return Err(refused("it has no gradients, `device.autodiff()` has"));
        }
        let wanted = "a CPU by Flex, Vulkan or CUDA is measured, where this build has its feature";
        let kind = device_kind(&device).ok_or_else(|| refused(wanted))?;
        let target =
            Fraction::try_new(self.budget).ok().filter(|it| 0.0 < it.get()).ok_or(Error::Budget(self.budget))?;
        let probe = open(kind, self.capacity)?;
        let config = PredictorConfig { beside: beside_tensors(kind), ..PredictorConfig::default() };
        let sparing = device.gradient_checkpointing_strategy();
        Ok(Step {
            known: Known {
                predictor: Predictor::try_new(config)?,
                refused: Vec::new(),
                platform: platform(kind, &probe.name()),
                small_batch: small_batch_regime(kind),
                checkpointing: sparing.is_some_and(|it| it != GradientCheckpointingStrategy::Disabled),
                has_exact_peaks: probe.has_exact_peak(),
                config,
            },
            guarded: GuardedStep::new(probe, device),
            state: TrainState::new(self.model, self.optimizer),
            micro_batch: self.micro_batch,
            target,
            recovery: self.recovery,
            by_length: self.by_length,
        })
    }
}
