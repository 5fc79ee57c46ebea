//! What the events of a run do not say.

use plimsoll_types::{Bytes, StepDone};
use serde::{Deserialize, Serialize};

use crate::StepSettings;
use crate::ranks::RankReport;

/// What the shell knows of a run and the events do not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Time that Plimsoll itself took per step, in microseconds, where it was measured.
    pub overhead_us_per_step: Option<f64>,
    /// What the steps of the last process waited for their samples in seconds, and which part of their time that was, where
    /// it was measured.
    #[serde(default)]
    pub waiting: Option<(f64, f64)>,
    /// What they waited for other ranks, and to add what these have made, in the same way; nothing where there are none.
    #[serde(default)]
    pub waiting_for_ranks: Option<(f64, f64)>,
    /// What came of the other ranks.
    #[serde(default)]
    pub other_ranks: Vec<RankReport>,
    /// High-water mark of the process while it loaded its data, where it was measured.
    #[serde(default)]
    pub loading_peak: Option<Bytes>,
    /// How the samples of a step were put together.
    #[serde(default)]
    pub step_settings: StepSettings,
    /// The deaths after which the run was taken up again.
    #[serde(default)]
    pub restarts: Vec<Restart>,
    /// Steps that were done again, whatever undid them, as they were done first.
    #[serde(default)]
    pub undone: Vec<UndoneStep>,
    /// How many samples that share a batch do so again in the next epoch, where that is known.
    #[serde(default)]
    pub mates_kept: Option<MatesKept>,
    /// What the data are, and what of them takes no part, line by line.
    #[serde(default)]
    pub data: Vec<String>,
    /// What the user should know, one sentence each.
    pub warnings: Vec<String>,
    /// Input files that could not be used.
    pub skipped_files: Vec<String>,
    /// Wall time of the run in seconds.
    pub seconds: f64,
    /// The run directory.
    pub out_dir: String,
}

/// How well an epoch of batches mixes with the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatesKept {
    /// The part of the pairs of a batch, or of a packed row, that share one in the next epoch too, from 0 to 1.
    pub kept: f64,
    /// The part that epochs of these samples keep at most, in the mean: the more, the fewer batches there are to mix with.
    /// Of packed rows nothing is known of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<f64>,
}

impl MatesKept {
    /// Says so in a line.
    pub(crate) fn line(self) -> String {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let kept = percent(self.kept);
        match self.reachable {
            Some(most) => format!(
                "{kept} meet again in the next epoch; with so many batches, at most {} in the mean",
                percent(most)
            ),
            None => format!("{kept} of those in one row meet again in a row of the next epoch"),
        }
    }
}

/// A death of the process that trained, and what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// The step that the next process began with.
    pub step: u64,
    /// What the process before it died of.
    pub death: String,
    /// Steps that were done again.
    pub undone_steps: u64,
}

/// A step that was done again, as it was done first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoneStep {
    /// The step.
    pub step: u64,
    /// The high-water mark of memory during it.
    pub peak: Bytes,
    /// What it took, in seconds.
    pub seconds: f64,
}

impl From<StepDone> for UndoneStep {
    fn from(it: StepDone) -> Self {
        Self { step: it.step, peak: it.peak, seconds: it.seconds }
    }
}
