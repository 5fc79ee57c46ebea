//! What a run is told.

use plimsoll_step::OptimizerRecovery;
use plimsoll_types::Fraction;

use crate::balance::BalanceConfig;
use crate::controller::ControllerConfig;
use crate::learning_rate::LearningRate;
use crate::loader::LoaderConfig;

/// The settings of a run that do not belong to its job.
#[derive(Clone, Debug, PartialEq)]
pub struct FitConfig {
    /// Description of the device, for the log.
    pub device: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether readings of memory are logged and nothing more: no decision, no bound and no split depends on them, so that
    /// the same micro-batches give the same weights, bit by bit, on the same machine.
    ///
    /// The policy must be one that never moves. An allocation that fails is still split.
    pub deterministic: bool,
    /// Optimizer steps.
    pub n_steps: u64,
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The part of the capacity that a step may use.
    pub target: Fraction,
    /// Whether an allocation that would pass the capacity while a step or a validation runs is refused, where the device
    /// does not refuse it by itself: on the CPU, where that ends the process before the machine swaps. In between, only
    /// what others leave counts.
    ///
    /// For a program that looks after its processes; without, a step above the capacity is noticed when it is done.
    pub draws_line: bool,
    /// Whether gradient checkpointing is switched on when one sample alone does not fit without.
    pub may_checkpoint: bool,
    /// What happens when the optimizer's step runs out of memory.
    pub optimizer_recovery: OptimizerRecovery,
    /// Predictor and policy.
    pub controller: ControllerConfig,
    /// How the job's tasks are balanced, where it has any.
    pub tasks: BalanceConfig,
    /// What steps are filled with.
    pub loader: LoaderConfig,
    /// What is known to be too long before the first step.
    pub longest: LongestEdges,
    /// Steps between two validations; the last step is always followed by one.
    pub validate_every: u64,
    /// The part of a run that validations may take, from 0 to 1: a part of a large validation set is measured where all of
    /// it would take more. At 1 all of it is, however long that takes.
    pub validation_share: Fraction,
    /// Steps between two checkpoints; the last step is always followed by one.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
}

/// The longest edges of which one sample alone is certain to fit, where some are not.
///
/// What is longer is left out, and tried when there is more memory than at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestEdges {
    /// Of samples to train on.
    pub train: Option<u32>,
    /// Of items of a validation: of one that is longer the job hears that it does not fit.
    pub validation: Option<u32>,
}
