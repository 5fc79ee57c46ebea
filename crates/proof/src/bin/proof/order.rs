//! What a fresh process is asked, and what it answers.

use std::path::PathBuf;

use plimsoll_finder::Found;
use plimsoll_plan::{PlannedCell, Pools};
use plimsoll_predict::{Correction, Dtype, PartReading, Phase};
use plimsoll_probe::DeviceKind;
use plimsoll_proof::plans::{Figure, Group};
use plimsoll_types::{Bytes, Extent, Features, StepShape};
use serde::{Deserialize, Serialize};

/// Something to do with a job on a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) job: String,
    pub(crate) device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub(crate) checkpointing: bool,
    /// What passes compute in.
    pub(crate) dtype: Dtype,
    /// A folder with a folder of data for each job that needs one.
    pub(crate) data: Option<PathBuf>,
    pub(crate) task: Task,
}

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Open the device.
    Open,
    /// Plan cells as a user does, and again without real steps.
    Plan { group: Group, max_real_steps: u32 },
    /// Find the largest batch of an extent within a capacity.
    Find { extent: Extent, batch_max: u32, capacity: Bytes },
    /// Rehearse a run.
    RehearseRun { steps: Vec<Vec<StepShape>> },
    /// Run steps of one shape.
    Cell(Steps),
    /// Run steps of these parts, with nothing returned to the device in between.
    Run { steps: Vec<Vec<StepShape>>, largest: StepShape },
    /// Read memory from every observer before and after a step.
    Memory { shape: StepShape },
    /// Take what is free of the device's memory but for this, and keep it until the process is ended.
    Hold { spare: Bytes },
}

/// Steps that are all the same.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Steps {
    pub(crate) phase: Phase,
    pub(crate) shape: StepShape,
    pub(crate) n_samples: u32,
    pub(crate) count: usize,
    /// The largest step of the run that they are part of: what its loader has buffers for. `None` without a loader.
    pub(crate) largest: Option<StepShape>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Open {
        name: String,
    },
    Plan(Plan),
    /// After each step.
    Pools(Vec<Pools>),
    Find(Found),
    Cell(Cell),
    Run {
        high_water: Bytes,
        after: Vec<Pools>,
        /// What was read of each part, in order, where peaks are exact.
        parts: Vec<PartReading>,
        seconds: f64,
    },
    Memory(Vec<Figure>),
}

/// A plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) cells: Vec<PlannedCell>,
    pub(crate) training: Correction,
    pub(crate) inference: Correction,
    /// What the tensors of the job's steps are combinations of.
    pub(crate) features: Features,
    /// Wall time of planning each cell, with kernels compiled, in milliseconds.
    pub(crate) planning_ms: Vec<f64>,
}

/// The last of some steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) resident: Bytes,
    pub(crate) reserved: Bytes,
    pub(crate) peak: Bytes,
    pub(crate) seconds: f64,
    /// Where the device keeps pools.
    pub(crate) pools: Option<Pools>,
}
