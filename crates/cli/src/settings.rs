//! The configuration as values.

use std::path::PathBuf;

use plimsoll_policy::{Bounds, CertifiedConfig, FixedConfig, PolicyConfig, Preset, StepwiseConfig};
use plimsoll_predict::PredictorConfig;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{
    BadSample, ControllerConfig, FitConfig, LearningRate, LoaderConfig, describe, platform, small_batch_regime,
};
use plimsoll_types::{Bytes, Fraction, Knobs};
use plimsoll_workloads::sr::{BadImage, EdsrConfig, PhotosConfig, SrConfig};
use serde::Deserialize;

use crate::exit::{UserError, user_error};
use crate::values::{BadImageSetting, BatchSize, Bound, Capacity, JobName, PlanSetting, PolicyKind};

/// Everything that a configuration file may say; `default.toml` documents each key and holds its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) job: JobName,
    pub(crate) device: DeviceKind,
    pub(crate) seed: u64,
    pub(crate) memory: Memory,
    pub(crate) batch: Batch,
    pub(crate) policy: Policy,
    pub(crate) train: Train,
    pub(crate) data: Data,
    pub(crate) model: Model,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) capacity: Capacity,
    pub(crate) target: Fraction,
    pub(crate) gradient_checkpointing: bool,
    pub(crate) plan: PlanSetting,
    rounding_margin: f64,
    regime_margin: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub(crate) effective_batch_size: u32,
    #[serde(rename = "batch_size")]
    pub(crate) size: BatchSize,
    patch_min: Bound,
    patch_max: Bound,
    #[serde(rename = "batch_min")]
    size_min: Bound,
    #[serde(rename = "batch_max")]
    size_max: Bound,
    patch_multiple: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    kind: PolicyKind,
    warm_up_steps: u64,
    cooldown_steps: u64,
    max_adjustments: u32,
    reopen_after_steps: u64,
    adjustment_frequency: u64,
    stepwise_target: f64,
    stepwise_dead_band: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Train {
    pub(crate) steps: u64,
    learning_rate: f64,
    warm_up_steps: u64,
    final_learning_rate_share: Fraction,
    validate_every: u64,
    checkpoint_every: u64,
    keep_checkpoints: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    folder: PathBuf,
    validation_share: Fraction,
    bad_image: BadImageSetting,
    crops_per_image: u32,
    workers: usize,
    buffer_limit: Bytes,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    channels: usize,
    blocks: u32,
    validation_tile: u32,
}

fn ordered(key: &str, min: u32, max: u32) -> Result<(), UserError> {
    if min <= max {
        return Ok(());
    }
    Err(user_error(format!("use the configuration: `{key}_min` is {min}, allowed is 1 to `{key}_max` ({max})")))
}

/// What there is to say of the bounds.
pub(crate) struct Notes {
    /// What was chosen, and by which preset.
    preset: String,
    /// What the user should know afterwards too.
    pub(crate) warnings: Vec<String>,
}

impl Notes {
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.preset).chain(&self.warnings)
    }
}

impl Settings {
    /// Refuses values that no type refuses.
    pub(crate) fn check(&self) -> Result<(), UserError> {
        let positive = [
            ("batch.effective_batch_size", u64::from(self.batch.effective_batch_size)),
            ("batch.patch_multiple", u64::from(self.batch.patch_multiple)),
            ("train.steps", self.train.steps),
            ("train.validate_every", self.train.validate_every),
            ("train.checkpoint_every", self.train.checkpoint_every),
            ("data.crops_per_image", u64::from(self.data.crops_per_image)),
            ("model.channels", self.model.channels as u64),
            ("model.validation_tile", u64::from(self.model.validation_tile)),
        ];
        if let Some((key, _)) = positive.iter().find(|it| it.1 == 0) {
            return Err(user_error(format!("use the configuration: `{key}` is 0, allowed is 1 and more")));
        }
        let limited = [("data.workers", self.data.workers as u64, 64), ("train.steps", self.train.steps, 1 << 32)];
        if let Some((key, value, most)) = limited.iter().find(|it| it.2 < it.1) {
            return Err(user_error(format!("use the configuration: `{key}` is {value}, allowed is up to {most}")));
        }
        if self.memory.target.get() <= 0.0 {
            return Err(user_error("use the configuration: `memory.target` is 0, allowed is above 0 and at most 1"));
        }
        let rate = self.train.learning_rate;
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(user_error(format!(
                "use the configuration: `train.learning_rate` is {rate}, allowed is above 0"
            )));
        }
        Ok(())
    }

    /// Returns the bounds of the knobs on a device of this capacity, with what there is to say of them.
    ///
    /// `largest_patch` is what the smallest image allows.
    pub(crate) fn bounds(&self, capacity: Bytes, largest_patch: u32) -> Result<(Bounds, Notes), UserError> {
        let (preset, batch, effective) = (Preset::for_capacity(capacity), &self.batch, self.batch.effective_batch_size);
        let (default, multiple) = (preset.bounds(), batch.patch_multiple);
        if let Some(max) = batch.size_max.0.filter(|it| effective < *it) {
            let allowed = format!("allowed is up to `batch.effective_batch_size` ({effective})");
            return Err(user_error(format!("use the configuration: `batch.batch_max` is {max}, {allowed}")));
        }
        if let BatchSize::Fixed(n) = batch.size
            && effective < n
        {
            let allowed = format!("allowed is up to `batch.effective_batch_size` ({effective})");
            return Err(user_error(format!("use the configuration: `batch.batch_size` is {n}, {allowed}")));
        }
        let batch_max = batch.size_max.0.unwrap_or(default.batch_max.min(effective));
        let batch_min = batch.size_min.0.unwrap_or(default.batch_min.min(batch_max));
        let patch_min = self.smallest_patch(capacity);
        let patch_max = batch.patch_max.0.unwrap_or((default.patch_max / multiple * multiple).max(patch_min));
        ordered("batch.patch", patch_min, patch_max)?;
        ordered("batch.batch", batch_min, batch_max)?;
        let room = (largest_patch / multiple * multiple).max(patch_min);
        let mut warnings = Vec::new();
        if room < patch_max {
            warnings.push(format!("patches stop at {room}: the smallest image allows no more than {largest_patch}"));
        }
        let patch_max = patch_max.min(room);
        let bounds = Bounds { patch_min, patch_max, patch_multiple: multiple, batch_min, batch_max };
        bounds.validate().map_err(|error| user_error(format!("use the configuration: `batch`: {error}")))?;
        let chosen = format!("patch {patch_min} to {patch_max}, batch {batch_min} to {batch_max}");
        let suggested = preset.target();
        if !suggested.contains(&self.memory.target.get()) {
            let (low, high) = (suggested.start(), suggested.end());
            warnings.push(format!("the preset of a {} suggests a target of {low} to {high}", preset.name()));
        }
        let preset = format!("{chosen}, effective {effective} (preset of a {})", preset.name());
        Ok((bounds, Notes { preset, warnings }))
    }

    /// Returns the smallest patch that may be asked for, before the capacity is known.
    pub(crate) fn smallest_patch(&self, capacity: Bytes) -> u32 {
        let multiple = self.batch.patch_multiple;
        let preset = Preset::for_capacity(capacity).bounds().patch_min;
        self.batch.patch_min.0.unwrap_or(preset.next_multiple_of(multiple))
    }

    /// Returns how the images are to be read.
    pub(crate) fn photos(&self, fixtures: PathBuf, smallest_patch: u32) -> PhotosConfig {
        let folder = if self.data.folder.as_os_str() == "built-in" { fixtures } else { self.data.folder.clone() };
        let bad_image = match self.data.bad_image {
            BadImageSetting::Fail => BadImage::Fail,
            BadImageSetting::Skip => BadImage::Skip,
        };
        PhotosConfig { folder, validation_share: self.data.validation_share.get(), bad_image, smallest_patch }
    }

    /// Returns the size of the job.
    pub(crate) fn sr(&self) -> SrConfig {
        let Model { channels, blocks, validation_tile } = self.model;
        let model = EdsrConfig { channels, blocks };
        SrConfig { model, crops_per_image: self.data.crops_per_image, validation_tile, seed: self.seed }
    }

    /// Returns the edge of validation tiles among images of which the largest has a side of `largest_side`.
    pub(crate) fn validation_tile(&self, largest_side: u32) -> u32 {
        self.model.validation_tile.min(largest_side)
    }

    /// Returns the loader of a run whose largest patch is this.
    pub(crate) fn loader(&self, largest_edge: u32) -> LoaderConfig {
        LoaderConfig {
            effective_batch_size: self.batch.effective_batch_size,
            largest_edge,
            workers: self.data.workers,
            buffer_limit: self.data.buffer_limit,
            bad_sample: BadSample::Fail,
        }
    }

    /// Returns how needs are bounded on a device with pages of this size.
    pub(crate) fn predictor(&self, page: Bytes) -> PredictorConfig {
        let Memory { rounding_margin, regime_margin, .. } = self.memory;
        PredictorConfig { rounding_margin, regime_margin, page }
    }

    /// Returns the settings of the run; `name` is the device's own.
    pub(crate) fn fit(&self, bounds: Bounds, page: Bytes, name: &str) -> FitConfig {
        let train = &self.train;
        FitConfig {
            device: describe(self.device),
            seed: self.seed,
            n_steps: train.steps,
            effective_batch_size: self.batch.effective_batch_size,
            learning_rate: LearningRate {
                peak: train.learning_rate,
                warm_up_steps: train.warm_up_steps,
                final_share: train.final_learning_rate_share.get(),
            },
            target: self.memory.target,
            controller: ControllerConfig {
                predictor: self.predictor(page),
                policy: self.policy(bounds),
                checkpointing: self.memory.gradient_checkpointing,
                platform: platform(self.device, name),
                planned: Vec::new(),
                small_batch: small_batch_regime(self.device),
            },
            largest_edge: bounds.patch_max,
            validate_every: train.validate_every,
            checkpoint_every: train.checkpoint_every,
            keep_checkpoints: train.keep_checkpoints,
            workers: self.data.workers,
            buffer_limit: self.data.buffer_limit,
            bad_sample: BadSample::Fail,
        }
    }

    fn policy(&self, bounds: Bounds) -> PolicyConfig {
        let Policy { warm_up_steps, cooldown_steps, max_adjustments, .. } = self.policy;
        let kept = |micro_batch_size| {
            PolicyConfig::Fixed(FixedConfig { knobs: Knobs { patch_size: bounds.patch_max, micro_batch_size } })
        };
        if let BatchSize::Fixed(n) = self.batch.size {
            return kept(n);
        }
        match self.policy.kind {
            PolicyKind::Certified => PolicyConfig::Certified(CertifiedConfig {
                bounds,
                warm_up_steps,
                cooldown_steps,
                max_adjustments,
                reopen_after_steps: self.policy.reopen_after_steps,
                ..CertifiedConfig::default()
            }),
            PolicyKind::Stepwise => PolicyConfig::Stepwise(StepwiseConfig {
                bounds,
                warm_up_steps: self.policy.adjustment_frequency,
                cooldown_steps: self.policy.adjustment_frequency,
                max_adjustments,
                target: self.policy.stepwise_target,
                dead_band: self.policy.stepwise_dead_band,
                ..StepwiseConfig::default()
            }),
            PolicyKind::Fixed => kept(bounds.batch_max),
        }
    }
}
