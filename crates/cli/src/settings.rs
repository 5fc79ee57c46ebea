//! The configuration as values.

mod jobs;
mod run;
mod sr;

use std::path::PathBuf;

use plimsoll_probe::DeviceKind;
use plimsoll_types::{Bytes, Fraction};
use serde::Deserialize;

use crate::exit::{UserError, user_error};
use crate::values::{
    BadSampleSetting, BalanceKind, BatchSize, Bound, Capacity, EffectiveUnit, JobName, PerTask, PlanSetting,
    PolicyKind, ScalingSetting,
};

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
    pub(crate) tasks: Tasks,
    pub(crate) sr: SrSettings,
    pub(crate) sequence: Sequence,
    pub(crate) multitask: Multitask,
    pub(crate) text: Text,
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
    effective_unit: EffectiveUnit,
    n_edges: u32,
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
    learning_rate_scaling: ScalingSetting,
    validate_every: u64,
    checkpoint_every: u64,
    keep_checkpoints: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    folder: PathBuf,
    validation_share: Fraction,
    bad_sample: BadSampleSetting,
    workers: usize,
    buffer_limit: Bytes,
    look_ahead: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SrSettings {
    channels: usize,
    blocks: u32,
    pub(crate) validation_tile: u32,
    crops_per_image: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tasks {
    balance: BalanceKind,
    alpha: f64,
    learning_rate: f64,
    diversity_weight: Fraction,
    homogeneous: bool,
    weights: PerTask,
    shares: PerTask,
    normalize_shares: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequence {
    heads: usize,
    head_width: usize,
    blocks: u32,
    stream: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multitask {
    channels: usize,
    features: usize,
    label_smoothing: f32,
    image_size: u32,
    max_words: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    vocabulary: usize,
    longest: u32,
    layers: usize,
    width: usize,
    heads: usize,
}

/// What there is to say of the sizes.
pub(crate) struct Notes {
    /// What was chosen, and why.
    pub(crate) chosen: String,
    /// What the user should know afterwards too.
    pub(crate) warnings: Vec<String>,
}

impl Notes {
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.chosen).chain(&self.warnings)
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
            ("sr.crops_per_image", u64::from(self.sr.crops_per_image)),
            ("sr.channels", self.sr.channels as u64),
            ("sr.validation_tile", u64::from(self.sr.validation_tile)),
            ("batch.n_edges", u64::from(self.batch.n_edges)),
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
}
