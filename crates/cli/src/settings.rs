//! The configuration as values.

mod arranged;
mod check;
mod jobs;
mod packing;
mod ranges;
mod run;
mod sr;
mod tasks;
mod together;

use std::path::PathBuf;

use plimsoll_probe::DeviceKind;
use plimsoll_train::MayRecompute;
use plimsoll_types::{Bytes, Fraction, Recompute};
use serde::Deserialize;

#[cfg(test)]
pub(crate) use self::ranges::RANGES;
pub(crate) use self::ranges::range;
pub(crate) use self::tasks::Mixed;
use crate::values::{
    AutoSize, BadSampleSetting, BalanceKind, BatchSize, Bound, Capacities, Capacity, Checkpointing, Cores, Devices,
    EffectiveUnit, EpochEnds, JobName, Most, ObjectiveSetting, OptimizerRecoverySetting, OutsideSetting, Packing,
    PerTask, PlanSetting, PolicyKind, Precision, Reduction, RowLen, ScalingSetting, SharesSetting,
};

/// Everything that a configuration file may say; `default.toml` documents each key and holds its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) job: JobName,
    #[serde(rename = "device")]
    devices: Devices,
    /// How many processes of the run compute on the cores of this one, itself included; 0 before anybody has asked.
    #[serde(skip)]
    n_processes: u32,
    pub(crate) seed: u64,
    pub(crate) memory: Memory,
    pub(crate) batch: Batch,
    pub(crate) policy: Policy,
    pub(crate) train: Train,
    pub(crate) data: Data,
    pub(crate) monitor: Monitor,
    pub(crate) tasks: Tasks,
    pub(crate) sr: SrSettings,
    pub(crate) sequence: Sequence,
    pub(crate) multitask: Multitask,
    pub(crate) text: Text,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    pub(crate) capacity: Capacities,
    pub(crate) target: Fraction,
    pub(crate) gradient_checkpointing: Checkpointing,
    pub(crate) plan: PlanSetting,
    rounding_margin: f64,
    regime_margin: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub(crate) effective_batch_size: u32,
    effective_unit: EffectiveUnit,
    pub(crate) n_edges: u32,
    batches_per_step: u32,
    multiple_of: u32,
    window: Bound,
    most_mates_kept: Fraction,
    objective: ObjectiveSetting,
    overhead: f64,
    drop_last: bool,
    pack: Packing,
    row_len: RowLen,
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
    max_reversals: u32,
    reopen_after_steps: u64,
    max_adjustments: u32,
    adjustment_frequency: u64,
    stepwise_target: f64,
    stepwise_dead_band: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Train {
    pub(crate) steps: u64,
    pub(crate) deterministic: bool,
    pub(crate) precision: Precision,
    replicas: Cores,
    pub(crate) reduction: Reduction,
    learning_rate: f64,
    warm_up_steps: u64,
    final_learning_rate_share: Fraction,
    learning_rate_scaling: ScalingSetting,
    optimizer_recovery: OptimizerRecoverySetting,
    validate_every: u64,
    validation_share: Fraction,
    patience: u64,
    checkpoint_every: u64,
    keep_checkpoints: usize,
    pub(crate) max_restarts: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    folder: PathBuf,
    validation_share: Fraction,
    test_share: Fraction,
    group_column: String,
    source_column: String,
    source_folders: bool,
    together: String,
    weight_column: String,
    shortest: u32,
    longest: Most,
    outside: OutsideSetting,
    bad_sample: BadSampleSetting,
    workers: usize,
    pub(crate) buffer_limit: AutoSize,
    pub(crate) store_limit: AutoSize,
    stream: bool,
    look_ahead: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Monitor {
    pub(crate) tensorboard: bool,
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
    shares: SharesSetting,
    normalize_shares: bool,
    temperature: f64,
    ends: EpochEnds,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequence {
    heads: usize,
    head_width: usize,
    blocks: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multitask {
    channels: usize,
    features: usize,
    places: bool,
    label_smoothing: f32,
    zoom: f32,
    colors: f32,
    mirror: bool,
    image_size: u32,
    own_sizes: bool,
    max_words: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    vocabulary: usize,
    longest: u32,
    overlap: u32,
    layers: usize,
    width: usize,
    heads: usize,
}

impl Settings {
    /// Returns the devices, each with the capacity that is to be respected; none for all that it has.
    pub(crate) fn devices(&self) -> Vec<(DeviceKind, Option<Bytes>)> {
        self.devices.iter().zip(0..).map(|(kind, place)| (kind, self.capacity_of(kind, place))).collect()
    }

    /// Returns the settings of the rank at a place of the list, which has its device for itself.
    pub(crate) fn only(&self, place: usize) -> Self {
        let mut settings = self.clone();
        settings.devices = self.devices.only(place);
        settings.memory.capacity = self.memory.capacity.only(place);
        settings
    }

    /// Returns the settings of the rank at a place whose others are threads of this process: each is one core's.
    pub(crate) fn of_thread(&self, place: usize) -> Self {
        let mut own = self.only(place);
        if 1 < self.devices.n() {
            own.train.replicas = Cores(Some(1));
        }
        own
    }

    /// Returns the settings of one of several processes that share the cores, and so much of the device.
    pub(crate) fn beside(&self, n_processes: u32, share: Option<Bytes>) -> Self {
        let mut own = Self { n_processes, ..self.clone() };
        if let Some(share) = share {
            own.memory.capacity.set(Capacity::Size(share));
        }
        own
    }

    /// Returns the first device: what is not divided among all of them is done there.
    pub(crate) fn device(&self) -> DeviceKind {
        self.devices.first()
    }

    /// Returns the capacity of the first device that is to be respected; none for all that it has.
    pub(crate) fn capacity(&self) -> Option<Bytes> {
        self.capacity_of(self.device(), 0)
    }

    fn capacity_of(&self, kind: DeviceKind, place: usize) -> Option<Bytes> {
        match self.memory.capacity.at(place) {
            Capacity::Size(set) => Some(set),
            Capacity::Device => None,
            Capacity::Auto => (kind == DeviceKind::Flex && self.is_built_in()).then(|| self.job.demo_capacity()),
        }
    }

    /// Whether the data are those that come with Plimsoll.
    pub(crate) fn is_built_in(&self) -> bool {
        self.data.folder.as_os_str() == "built-in"
    }

    /// Where a plan may recompute activations; a deterministic run takes nothing from readings.
    pub(crate) fn may_recompute(&self) -> MayRecompute {
        let is_free = self.memory.gradient_checkpointing == Checkpointing::Auto && !self.train.deterministic;
        if is_free { MayRecompute::WhereFaster } else { MayRecompute::Nowhere }
    }
}

impl Memory {
    /// Whether activations are recomputed from the first step on.
    pub(crate) fn recompute(&self) -> Recompute {
        if self.gradient_checkpointing == Checkpointing::On { Recompute::ALWAYS } else { Recompute::NEVER }
    }
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
