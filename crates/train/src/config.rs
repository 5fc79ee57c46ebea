//! What a run is told.

use std::num::NonZeroU64;

use plimsoll_policy::{Bounds, BucketedConfig, CertifiedConfig, PolicyConfig};
use plimsoll_predict::PredictorConfig;
use plimsoll_probe::{DeviceKind, ProbeError, open};
use plimsoll_step::OptimizerRecovery;
use plimsoll_types::{Cells, Extent, Fraction, Recompute};

use crate::balance::BalanceConfig;
use crate::controller::ControllerConfig;
use crate::device::{beside_tensors, describe, has_exact_peaks, platform, small_batch_regime};
use crate::learning_rate::{LearningRate, Scaling};
use crate::loader::{LoaderConfig, USUAL_BUFFERS};

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
    /// What is known to be too large before the first step.
    pub too_large: KnownTooLarge,
    /// Steps between two validations; the last step is always followed by one.
    pub validate_every: u64,
    /// The part of a run that validations may take, from 0 to 1: a part of a large validation set is measured where all of
    /// it would take more. At 1 all of it is, however long that takes.
    pub validation_share: Fraction,
    /// Validations in a row that are no better than the best before them, after which the run ends; `None` for no end but the
    /// last step.
    pub patience: Option<NonZeroU64>,
    /// Steps between two checkpoints; the last step is always followed by one.
    pub checkpoint_every: u64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
}

/// The part of the capacity that steps may use by default: readings of a machine that others use too move by less.
const TARGET: f64 = 0.9;

/// A run validates and saves so often by default.
const PAUSES: u64 = 10;

/// Micro-batches are no larger than this by default, however much memory there is: more gains no time.
const MOST_SAMPLES: u32 = 64;

impl FitConfig {
    /// Trains on samples of one size, in micro-batches as large as the memory allows; what else there is to set can be set
    /// in what is returned.
    ///
    /// By default steps may use 0.9 of the capacity, the learning rate falls from 10⁻³, and activations are recomputed only
    /// where one sample alone does not fit without.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] when the device cannot be opened.
    pub fn of_one_size(device: DeviceKind, n_steps: u64, effective_batch_size: u32) -> Result<Self, ProbeError> {
        let batch_max = effective_batch_size.min(MOST_SAMPLES);
        let bounds = Bounds { patch_min: 1, patch_max: 1, patch_multiple: 1, batch_min: 1, batch_max };
        let policy = PolicyConfig::Certified(CertifiedConfig { bounds, ..CertifiedConfig::default() });
        Self::of_policy(device, n_steps, LoaderConfig::cut(0, effective_batch_size, 1, USUAL_BUFFERS), policy)
    }

    /// As [`Self::of_one_size`], for samples that are padded to the smallest of these `cells` that holds them, such as those
    /// that [`plimsoll_sampler::cells`] chooses, or the edges that [`plimsoll_sampler::edges`] does; the last one holds all.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] when the device cannot be opened.
    pub fn padded(
        device: DeviceKind,
        n_steps: u64,
        effective_batch_size: u32,
        cells: impl Into<Cells>,
    ) -> Result<Self, ProbeError> {
        let batch_max = effective_batch_size.min(MOST_SAMPLES);
        let cells = cells.into();
        let policy = BucketedConfig { cells: cells.clone(), batch_max, ..BucketedConfig::default() };
        let largest_extent = cells.last().copied().unwrap_or(Extent::new(1));
        let cut = LoaderConfig::cut(0, effective_batch_size, 1, USUAL_BUFFERS);
        let loader = LoaderConfig { largest_extent, cells, ..cut };
        Self::of_policy(device, n_steps, loader, PolicyConfig::Bucketed(policy))
    }

    fn of_policy(
        device: DeviceKind,
        n_steps: u64,
        loader: LoaderConfig,
        policy: PolicyConfig,
    ) -> Result<Self, ProbeError> {
        let every = (n_steps / PAUSES).max(1);
        Ok(Self {
            device: describe(device),
            seed: 0,
            deterministic: false,
            n_steps,
            learning_rate: LearningRate {
                peak: 1e-3,
                warm_up_steps: n_steps / 20,
                final_share: 0.1,
                scaling: Scaling::None,
            },
            target: Fraction::try_new(TARGET).unwrap_or(Fraction::ONE),
            draws_line: false,
            may_checkpoint: true,
            optimizer_recovery: OptimizerRecovery::Restore,
            controller: ControllerConfig {
                predictor: PredictorConfig { beside: beside_tensors(device), ..PredictorConfig::default() },
                policy,
                recompute: Recompute::NEVER,
                platform: platform(device, &open(device, None)?.name()),
                exact_peaks: has_exact_peaks(device),
                small_batch: small_batch_regime(device),
                planned: Vec::new(),
                replicas: 1,
            },
            tasks: BalanceConfig::default(),
            loader,
            too_large: KnownTooLarge::default(),
            validate_every: every,
            validation_share: Fraction::ONE,
            patience: None,
            checkpoint_every: every,
            keep_checkpoints: 2,
        })
    }
}

/// What is too large for one of it alone to be certain to fit.
///
/// It is left out, and tried when there is more memory than at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTooLarge {
    /// Samples to train on that are padded to one of these extents, or to more along each axis.
    pub train: Vec<Extent>,
    /// Items of a validation that are longer than this edge: of one of these the job hears that it does not fit.
    pub validation: Option<u32>,
}
