//! A run in two dozen numbers.

use plimsoll_types::{Bytes, EndReason};
use serde::{Deserialize, Serialize};

use crate::adjustment::Adjustment;
use crate::change::SettingChange;
use crate::dropped::DroppedReport;
use crate::facts::{MatesKept, Restart};
use crate::foreseen::ForeseenReport;
use crate::learning::ValidationReport;
use crate::limit::Limit;
use crate::ran::{EdgeSamples, SizeRate};
use crate::ranks::RankReport;
use crate::source::SourceReport;
use crate::supply::SupplyReport;
use crate::task::TaskReport;
use crate::usage::Usage;
use crate::work::Work;

/// What came of a run; what the events do not say is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// [`TrainingReport::VERSION`] of the writer; reports that do not say are of version 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Whether the memory was used well, and what would change that, in words.
    #[serde(default)]
    pub verdict: Option<String>,
    /// The changes that would help most, each with what speaks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SettingChange>,
    /// What the validations warn of, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// What kept steps from being larger.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// Name of the job.
    pub job: Option<String>,
    /// The device.
    pub device: Option<String>,
    /// Why the run ended; `None` when it was killed.
    pub end: Option<EndReason>,
    /// Steps that the optimizer took.
    pub steps: u64,
    /// Steps that were given up.
    pub steps_given_up: u64,
    /// Of so many steps at most the pictures show the lowest and the highest; 1 where all steps are drawn.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub steps_per_point: u64,
    /// Epochs that ended.
    pub epochs: u64,
    /// Samples of the committed steps.
    pub samples_seen: u64,
    /// What of the work was real, where samples are padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The padding that the edges make of the samples, from 0 to 1, where the log says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_padding: Option<f64>,
    /// Samples per second of each size, where steps of it were committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub size_rates: Vec<SizeRate>,
    /// Samples of each shape that they were padded or cut to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edge_samples: Vec<EdgeSamples>,
    /// How far ahead samples were read, where they are streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply: Option<SupplyReport>,
    /// Peaks against what was predicted of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen: Option<ForeseenReport>,
    /// Samples that could not be read and were left out, counted each time.
    #[serde(default)]
    pub samples_skipped: u64,
    /// Samples that came in no step of their epoch, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedReport>,
    /// The capacity at the end.
    pub capacity_bytes: Option<Bytes>,
    /// The budget at the end.
    pub budget_bytes: Option<Bytes>,
    /// The highest mark of a step or validation, without the attempts that ran out of memory.
    pub peak_bytes: Option<Bytes>,
    /// Peaks of training and validation apart, and what is in use.
    #[serde(default, flatten)]
    pub usage: Usage,
    /// High-water mark of the process while it loaded its data.
    #[serde(default)]
    pub loading_peak_bytes: Option<Bytes>,
    /// Median of peak over budget in the committed steps after the last adjustment.
    pub steady_budget_share: Option<f64>,
    /// The most that this is off, where it is an estimate: of more than 4096 steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_budget_share_error: Option<f64>,
    /// Changes of the knobs or batch sizes.
    pub adjustments: u64,
    /// Those that took more memory.
    #[serde(default)]
    pub increases: u64,
    /// Those that took less.
    #[serde(default)]
    pub decreases: u64,
    /// Steps that ran out of memory and were committed all the same.
    pub oom_recoveries: u64,
    /// Micro-batches that reached more than their upper bound, those of validations included.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub bounds_exceeded: u64,
    /// Those of validations.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub bounds_exceeded_in_validations: u64,
    /// Name of the metric, with its unit.
    pub metric_name: Option<String>,
    /// The metric of the last validation.
    pub metric: Option<f64>,
    /// The trivial baseline's metric on the same samples.
    pub baseline: Option<f64>,
    /// The validation that was best.
    #[serde(default)]
    pub best_validation: Option<ValidationReport>,
    /// The last validation.
    #[serde(default)]
    pub last_validation: Option<ValidationReport>,
    /// The test of the best model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ValidationReport>,
    /// The checkpoint that was written last.
    #[serde(default)]
    pub last_checkpoint: Option<String>,
    /// What the edge of a shape counts.
    #[serde(default)]
    pub unit_of_length: String,
    /// What was drawn from each source, where the samples have several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceReport>,
    /// Along how many axes samples extend.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub n_axes: u64,
    /// What came of each task, where the samples have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskReport>,
    /// Wall time of the run in seconds.
    pub seconds: f64,
    /// Samples of the committed steps by the time of all steps.
    pub samples_per_second: Option<f64>,
    /// Time that Plimsoll itself took per step, in microseconds.
    pub overhead_us_per_step: Option<f64>,
    /// What the steps of the last process waited for their samples, in seconds.
    #[serde(default)]
    pub waiting_seconds: Option<f64>,
    /// What they waited for other ranks, and to add what these have made, as a part of their time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_ranks: Option<f64>,
    /// What came of each rank, where there are several; what is said of memory elsewhere is of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
    /// How many input files could not be used.
    pub skipped: usize,
    /// The deaths after which the run was taken up again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// Steps that were done again, whatever undid them.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub undone_steps: u64,
    /// What the steps took that were done again, in seconds; nothing where there are none.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub undone_seconds: f64,
    /// How many samples that share a batch do so again in the next epoch, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mates_kept: Option<MatesKept>,
    /// What the data are, and what of them takes no part, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
    /// Input files that could not be used, each with the reason.
    pub skipped_files: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Every change of the knobs or batch sizes, with its reason.
    pub decisions: Vec<Adjustment>,
    /// The run directory.
    pub out_dir: String,
}

impl TrainingReport {
    /// Version of the layout; raised by every change that an older reader would misread.
    pub const VERSION: u32 = 2;
}

const fn first_version() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nothing(seconds: &f64) -> bool {
    *seconds <= 0.0
}

const fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_one(n: &u64) -> bool {
    *n == 1
}
