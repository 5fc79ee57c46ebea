//! The settings of a run, whatever its job.

use std::num::NonZeroU64;

use plimsoll_policy::{Bounds, BucketedConfig, CertifiedConfig, FixedConfig, LARGEST, PolicyConfig, StepwiseConfig};
use plimsoll_predict::{Dtype, Platform, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_sampler::{TaskMix, cells};
use plimsoll_train::{
    BalanceConfig, ControllerConfig, FitConfig, KnownTooLarge, LearningRate, LoaderConfig, MayRecompute,
    OptimizerRecovery, Scaling, StepUnit, USUAL_BUFFERS, beside_tensors, describe, has_exact_peaks, n_cores, platform,
    small_batch_regime,
};
use plimsoll_types::{Cells, Extent, Knobs};

use super::{Data, Memory, Policy, Settings, Tasks};
use crate::exit::{UserError, user_error};
use crate::sizes::{Buckets, Sizes};
use crate::values::{
    BalanceKind, BatchSize, EffectiveUnit, JobName, OptimizerRecoverySetting, PolicyKind, Precision, ScalingSetting,
};

/// Edges are multiples of this, unless all samples are short: kernels like it, and it costs little padding.
const EDGE_MULTIPLE: u32 = 4;

/// Fewer samples of a step take more time on a replica than are saved: Flex has slow kernels for the smallest batches.
const SAMPLES_OF_REPLICA: u32 = 8;

/// Samples up to this length are short: here every position counts.
const SHORT: u32 = 32;

impl Settings {
    /// Returns the cells that samples of these extents are padded to.
    pub(crate) fn cells(&self, extents: &[Extent]) -> Result<Cells, UserError> {
        let longest = extents.iter().copied().reduce(Extent::joined).unwrap_or(Extent::new(1));
        let multiple = |longest: &u32| if *longest <= SHORT { 1 } else { EDGE_MULTIPLE };
        let multiples: Vec<u32> = longest.edges().iter().map(multiple).collect();
        let found = cells(extents, self.batch.n_edges, &multiples);
        found.map_err(|error| user_error(format!("choose edges for the samples: {error}")))
    }

    /// Returns the buckets for samples that are padded to these cells, and checks what is configured of batches.
    pub(crate) fn buckets(&self, cells: Cells) -> Result<Buckets, UserError> {
        let largest = cells.last().copied().unwrap_or(Extent::new(1));
        // Of those that come in order by their positions, the first has the fewest.
        let (shortest, loader) = (cells.first().copied().unwrap_or(largest), self.loader(largest, cells.clone()));
        self.check_batches(loader.samples_of(shortest))?;
        let batch_max = self.batch.size_max.0.unwrap_or(loader.batch_of(shortest));
        if LARGEST < batch_max {
            return Err(self.too_large(shortest, &loader));
        }
        self.check_room_for_multiple(batch_max, &loader)?;
        Ok(Buckets { cells, batch_max })
    }

    /// Says how large a step of positions may be for its micro-batches not to be larger than a policy takes.
    fn too_large(&self, shortest: Extent, loader: &LoaderConfig) -> UserError {
        let parts = if loader.unit == StepUnit::Positions { loader.batches_per_step.max(1) } else { 1 };
        let (n, most) = (self.batch.effective_batch_size, u64::from(LARGEST) * shortest.positions() * u64::from(parts));
        user_error(format!(
            "use the configuration: `batch.effective_batch_size` is {n}, allowed is up to {most} tokens: micro-batches of \
             length {shortest} may have up to {LARGEST} samples"
        ))
    }

    /// Whether a step is so many positions, and not so many samples.
    pub(super) fn counts_positions(&self) -> bool {
        match self.batch.effective_unit {
            EffectiveUnit::Samples => false,
            EffectiveUnit::Tokens => true,
            EffectiveUnit::Batch => self.job == JobName::Text,
        }
    }

    /// Returns how many parts of a step run at once.
    pub(crate) fn replicas(&self) -> u32 {
        let is_one_batch = self.batch.effective_unit == EffectiveUnit::Batch;
        let is_alone = self.devices.n() == 1;
        if !is_alone || self.device() != DeviceKind::Flex || self.train.deterministic || is_one_batch {
            return 1;
        }
        let most = if self.counts_positions() {
            self.batch.batches_per_step.saturating_mul(2)
        } else {
            self.batch.effective_batch_size / SAMPLES_OF_REPLICA
        };
        // Each of several processes has its part of the cores that are theirs together.
        let n_cores = u32::try_from(n_cores()).unwrap_or(u32::MAX) / self.n_processes.max(1);
        self.train.replicas.0.unwrap_or(n_cores.min(most).max(1))
    }

    /// Refuses micro-batches that are larger than a step.
    pub(super) fn check_batches(&self, most: u32) -> Result<(), UserError> {
        let fixed = if let BatchSize::Fixed(n) = self.batch.size { Some(n) } else { None };
        for (key, value) in [("batch_max", self.batch.size_max.0), ("batch_size", fixed)] {
            if let Some(value) = value.filter(|it| most < *it) {
                let allowed = format!("allowed is up to `batch.effective_batch_size` ({most})");
                return Err(user_error(format!("use the configuration: `batch.{key}` is {value}, {allowed}")));
            }
        }
        Ok(())
    }

    /// Whether the largest micro-batch is given as a number.
    pub(super) fn names_batch(&self) -> bool {
        self.is_batch_max_set() || matches!(self.batch.size, BatchSize::Fixed(_))
    }

    /// Whether the largest batch is given as a number.
    pub(crate) fn is_batch_max_set(&self) -> bool {
        self.batch.size_max.0.is_some()
    }

    /// Names what steps count.
    pub(super) fn counted(&self) -> &'static str {
        if self.counts_positions() { "tokens" } else { "samples" }
    }

    /// Says what a step takes.
    pub(crate) fn step(&self) -> String {
        let n = self.batch.effective_batch_size;
        match self.batch.effective_unit {
            EffectiveUnit::Samples => format!("{n} samples per step"),
            EffectiveUnit::Tokens => format!("{n} tokens per step"),
            EffectiveUnit::Batch => "one batch per step".to_owned(),
        }
    }

    /// Returns the loader of a run with these cells, none where samples are cut; shares come with what they are of.
    pub(crate) fn loader(&self, largest_extent: Extent, cells: Cells) -> LoaderConfig {
        let Data { workers, buffer_limit, look_ahead, .. } = self.data;
        let buffer_limit = buffer_limit.0.unwrap_or(USUAL_BUFFERS);
        let Tasks { diversity_weight, homogeneous, normalize_shares, ends, .. } = self.tasks;
        LoaderConfig {
            unit: match self.batch.effective_unit {
                EffectiveUnit::Samples => StepUnit::Samples,
                EffectiveUnit::Tokens => StepUnit::Positions,
                EffectiveUnit::Batch if self.job == JobName::Text => StepUnit::BatchOfPositions,
                EffectiveUnit::Batch => StepUnit::Batch,
            },
            cells,
            largest_extent,
            batches_per_step: if self.names_batch() { 1 } else { self.batch.batches_per_step },
            multiple_of: self.batch.multiple_of,
            window: self.batch.window.0.map(|n| n as usize),
            most_mates_kept: self.batch.most_mates_kept,
            objective: self.objective(),
            drop_last: self.batch.drop_last,
            tasks: TaskMix { shares: None, normalize_shares, diversity_weight, homogeneous, ends: ends.into() },
            look_ahead,
            workers,
            bad_sample: self.bad_sample(),
            ..LoaderConfig::cut(self.seed, self.batch.effective_batch_size, 1, buffer_limit)
        }
    }

    fn balance(&self) -> BalanceConfig {
        let Tasks { balance, alpha, learning_rate, ref weights, .. } = self.tasks;
        match balance {
            BalanceKind::GradNorm => BalanceConfig::GradNorm { alpha, learning_rate },
            BalanceKind::Fixed => BalanceConfig::Fixed { weights: weights.0.clone().unwrap_or_default() },
        }
    }

    /// Returns how needs are bounded; the job names the features.
    pub(crate) fn predictor(&self) -> PredictorConfig {
        let Memory { rounding_margin, regime_margin, .. } = self.memory;
        let beside = beside_tensors(self.device());
        PredictorConfig { rounding_margin, regime_margin, beside, ..PredictorConfig::default() }
    }

    /// Returns the settings of the run; `name` is the device's own.
    pub(crate) fn fit(&self, sizes: &Sizes, loader: LoaderConfig, name: &str) -> Result<FitConfig, UserError> {
        let train = &self.train;
        Ok(FitConfig {
            device: match self.replicas() {
                1 => describe(self.device()),
                n => format!("{} ({n} replicas)", self.device()),
            },
            seed: self.seed,
            deterministic: train.deterministic,
            n_steps: train.steps,
            learning_rate: LearningRate {
                peak: train.learning_rate,
                warm_up_steps: train.warm_up_steps,
                final_share: train.final_learning_rate_share.get(),
                scaling: match train.learning_rate_scaling {
                    ScalingSetting::None => Scaling::None,
                    ScalingSetting::Sqrt => Scaling::Sqrt,
                    ScalingSetting::Linear => Scaling::Linear,
                },
            },
            target: self.memory.target,
            draws_line: true,
            may_checkpoint: self.may_recompute() != MayRecompute::Nowhere,
            too_large: KnownTooLarge::default(),
            optimizer_recovery: self.optimizer_recovery(),
            controller: ControllerConfig {
                predictor: self.predictor(),
                policy: self.policy(sizes)?,
                recompute: self.memory.recompute(),
                platform: Platform { dtype: self.dtype(), ..platform(self.device(), name) },
                planned: Vec::new(),
                exact_peaks: has_exact_peaks(self.device()),
                small_batch: small_batch_regime(self.device()),
                replicas: self.replicas(),
            },
            tasks: self.balance(),
            loader,
            validate_every: train.validate_every,
            validation_share: train.validation_share,
            patience: NonZeroU64::new(train.patience),
            checkpoint_every: train.checkpoint_every,
            keep_checkpoints: train.keep_checkpoints,
        })
    }

    /// Returns the number format that passes compute in.
    pub(crate) fn dtype(&self) -> Dtype {
        match self.train.precision {
            Precision::F32 => Dtype::F32,
            Precision::Bf16 => Dtype::Bf16,
        }
    }

    /// Returns where the state from before an optimizer's step that ran out of memory comes from.
    pub(crate) fn optimizer_recovery(&self) -> OptimizerRecovery {
        match self.train.optimizer_recovery {
            OptimizerRecoverySetting::Restore => OptimizerRecovery::Restore,
            OptimizerRecoverySetting::Keep => OptimizerRecovery::Keep,
        }
    }

    /// Returns what kind of policy is asked for.
    pub(crate) fn policy_kind(&self) -> PolicyKind {
        self.policy.kind
    }

    /// Whether micro-batches come from a plan alone.
    pub(crate) fn takes_sizes_from_plan(&self) -> bool {
        let is_given = matches!(self.batch.size, BatchSize::Fixed(_)) || self.policy.kind == PolicyKind::Fixed;
        self.train.deterministic && !is_given
    }

    fn policy(&self, sizes: &Sizes) -> Result<PolicyConfig, UserError> {
        if self.train.deterministic {
            return Ok(PolicyConfig::Fixed(self.pinned(sizes)));
        }
        match sizes {
            Sizes::Cut(bounds) => Ok(self.policy_of_cuts(*bounds)),
            Sizes::Padded(buckets) => self.policy_of_buckets(buckets),
        }
    }

    /// Returns sizes that never change: those that are given, or the smallest, until a plan says more.
    fn pinned(&self, sizes: &Sizes) -> FixedConfig {
        let (least, most) = sizes.batches();
        let micro_batch_size = match self.batch.size {
            BatchSize::Fixed(n) => n,
            _ if self.takes_sizes_from_plan() => least,
            _ => most,
        };
        let batch_sizes = match sizes {
            Sizes::Cut(_) => Vec::new(),
            Sizes::Padded(buckets) => vec![micro_batch_size; buckets.cells.len()],
        };
        let knobs = Knobs { patch_size: sizes.largest().edge(), micro_batch_size };
        FixedConfig { knobs, batch_sizes, from_plan: self.takes_sizes_from_plan() }
    }

    fn policy_of_cuts(&self, bounds: Bounds) -> PolicyConfig {
        let Policy { warm_up_steps, cooldown_steps, max_reversals, reopen_after_steps, .. } = self.policy;
        let kept = |micro_batch_size| {
            PolicyConfig::Fixed(FixedConfig::of(Knobs { patch_size: bounds.patch_max, micro_batch_size }))
        };
        if let BatchSize::Fixed(n) = self.batch.size {
            return kept(n);
        }
        match self.policy.kind {
            PolicyKind::Certified => PolicyConfig::Certified(CertifiedConfig {
                bounds,
                warm_up_steps,
                cooldown_steps,
                max_reversals,
                reopen_after_steps,
                ..CertifiedConfig::default()
            }),
            PolicyKind::Stepwise => PolicyConfig::Stepwise(StepwiseConfig {
                bounds,
                warm_up_steps: self.policy.adjustment_frequency,
                cooldown_steps: self.policy.adjustment_frequency,
                max_adjustments: self.policy.max_adjustments,
                target: self.policy.stepwise_target,
                dead_band: self.policy.stepwise_dead_band,
                ..StepwiseConfig::default()
            }),
            PolicyKind::Fixed => kept(bounds.batch_max),
        }
    }
    fn policy_of_buckets(&self, Buckets { cells, batch_max }: &Buckets) -> Result<PolicyConfig, UserError> {
        let Policy { kind, warm_up_steps, cooldown_steps, max_reversals, reopen_after_steps, .. } = self.policy;
        let kept = match (self.batch.size, kind) {
            (BatchSize::Fixed(n), _) => Some(n),
            (_, PolicyKind::Fixed) => Some(*batch_max),
            (_, PolicyKind::Certified) => None,
            (_, PolicyKind::Stepwise) => {
                let allowed = "allowed for samples with lengths is \"certified\" or \"fixed\"";
                return Err(user_error(format!("use the configuration: `policy.kind` is \"stepwise\", {allowed}")));
            }
        };
        Ok(PolicyConfig::Bucketed(BucketedConfig {
            cells: cells.clone(),
            batch_max: kept.unwrap_or(*batch_max),
            start: kept.map(|n| vec![n; cells.len()]),
            warm_up_steps,
            cooldown_steps,
            max_reversals,
            reopen_after_steps,
            ..BucketedConfig::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Extent;

    use crate::load::Layers;

    #[test]
    fn a_step_whose_micro_batches_no_policy_takes_is_refused_with_what_is_allowed() {
        let buckets = |sets: &[&str]| {
            let sets = ["job=text"].iter().chain(sets).map(ToString::to_string).collect();
            let settings = Layers { sets, ..Layers::default() }.load().unwrap().settings;
            settings
                .cells(&[40, 80].map(Extent::new))
                .and_then(|cells| settings.buckets(cells))
                .map(|it| it.batch_max)
                .map_err(|error| error.to_string())
        };
        let (key, most) = ("batch.effective_batch_size", 40 * 4 * (1_u64 << 20));
        assert_eq!(buckets(&[&format!("{key}={most}")]), Ok(1 << 20));
        for (value, more, allowed) in
            [(most + 1, "seed=1", most), (4_000_000_000, "batch.effective_unit=batch", 40 << 20)]
        {
            let refused = format!(
                "use the configuration: `{key}` is {value}, allowed is up to {allowed} tokens: micro-batches of length 40 \
                 may have up to 1048576 samples"
            );
            assert_eq!(buckets(&[&format!("{key}={value}"), more]), Err(refused));
        }
    }
}
