//! What the configuration says of the sizes of a step.

use serde::{Deserialize, Serialize};

/// How the samples of a step are put together, as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSettings {
    /// What the effective batch counts: "samples" or the samples' unit of length.
    pub effective_unit: String,
    /// The micro-batches that a step is made of at least, where samples have lengths.
    pub batches_per_step: Option<u32>,
    /// Whether samples are padded to as many edges as `batch.n_edges` allows, so that more of them would pad less.
    #[serde(default)]
    pub lacks_edges: bool,
    /// Whether the effective batch follows the memory, each batch being a step of its own.
    pub is_batch_a_step: bool,
    /// Whether the capacity was set, and the device may have more.
    pub is_capacity_set: bool,
    /// Who chose the sizes.
    #[serde(default)]
    pub chosen_by: ChosenBy,
    /// The largest patch, where samples are cut.
    #[serde(default)]
    pub patch_max: Option<Bound>,
    /// The largest batch.
    #[serde(default)]
    pub batch_max: Option<Bound>,
}

/// Who chose the sizes of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// A policy that follows the memory.
    #[default]
    Policy,
    /// `batch.batch_size`, which is a number.
    BatchSize,
    /// The search that `batch.batch_size = "auto"` asks for.
    Search,
    /// `policy.kind = "fixed"`, which keeps them at their bounds.
    FixedPolicy,
    /// A plan alone, since the run is deterministic.
    Plan,
}

/// A bound of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The largest value.
    pub most: u32,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a bound comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The configuration says it.
    Set,
    /// The preset of the capacity.
    Preset,
    /// The samples allow no more, or the step that they fill: no larger bound would help.
    Data,
}
