//! Everything that the shell of a run learns, in one closed enum: the lines of `events.jsonl`.

use serde::{Deserialize, Serialize};

use crate::{
    Bytes, Decision, Extent, Knobs, NamedSource, Phase, Recompute, StepFailed, StepShape, SupplyStep, Validated,
    null_as_nan,
};

/// Version of the event log; raised by every change that an older reader would misread.
pub const SCHEMA_VERSION: u32 = 7;

/// Version of the oldest log that is read: what has come since is only added.
pub const OLDEST_SCHEMA_VERSION: u32 = 6;

/// One line of a run's log.
///
/// Replaying the events through a policy gives the decisions that the log records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A run began.
    RunStarted(RunStarted),
    /// A step was committed, or given up.
    StepDone(StepDone),
    /// A step ran out of memory somewhere, and will be tried again.
    StepFailed(StepFailed),
    /// From here on, activations are recomputed in the backward pass.
    GradientCheckpointing(GradientCheckpointing),
    /// There is more or less memory to use than before.
    BudgetChanged(BudgetChanged),
    /// A policy decided.
    Decided(Decided),
    /// A micro-batch reached more than its upper bound.
    BoundExceeded(BoundExceeded),
    /// The model was validated.
    Validated(Validated),
    /// The model that was best in a validation was tested, at the end of the run.
    Tested(Validated),
    /// An epoch ended.
    EpochDone(EpochDone),
    /// A checkpoint was written.
    CheckpointSaved(CheckpointSaved),
    /// The run ended.
    RunEnded(RunEnded),
}

/// How much memory there is, and how much of it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// What the device has, or what the user set.
    pub capacity: Bytes,
    /// The part of `capacity` that a step may use.
    pub budget: Bytes,
}

impl Budget {
    /// All the memory in the world: nothing that is measured or predicted is too much.
    pub const UNBOUNDED: Self = Self { capacity: Bytes::MAX, budget: Bytes::MAX };
}

/// The head of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Name of the job.
    pub job: String,
    /// The device, with what its compiler had switched on.
    pub device: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Samples per optimizer step.
    pub effective_batch_size: u32,
    /// Steps that were asked for.
    pub n_steps: u64,
    /// Names of the tasks, where the samples have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// What the samples come from, in the order of their ids, where that is told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<NamedSource>,
    /// What the edge of a shape counts: "pixels", "frames", "images" or "tokens"; logs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit_of_length: String,
    /// The part of the positions, from 0 to 1, that is padding where each sample is padded to its own cell, where the lengths are
    /// known before they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_padding: Option<f64>,
    /// The knobs of the first step.
    pub knobs: Knobs,
    /// The memory at the start.
    #[serde(flatten)]
    pub budget: Budget,
    /// The configuration of predictor and policy in JSON, so that a log can be replayed without anything else.
    pub controller: String,
}

/// The samples of one forward and backward pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MicroBatch {
    /// Sample ids, in order.
    pub ids: Vec<u64>,
    /// What the samples were padded or cropped to.
    pub edges: Extent,
    /// The rows that the samples share, where they are packed; else each has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// Bytes in use before this micro-batch, where the step has several: the gradients that those before it have accumulated
    /// are among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Bytes>,
    /// Whether it began among pages that micro-batches of other shapes had reserved, so that the high-water mark of the step is
    /// not its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_pages: bool,
    /// High-water mark of this micro-batch, where it was measured by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Bytes>,
    /// The nodes of its graph, or zero where that is small.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub nodes: u64,
}

impl MicroBatch {
    /// Describes samples that were not measured by themselves.
    pub fn new(ids: Vec<u64>, edges: impl Into<Extent>) -> Self {
        Self { ids, edges: edges.into(), rows: None, resident: None, shares_pages: false, peak: None, nodes: 0 }
    }

    /// Returns the shape of the micro-batch.
    pub fn shape(&self) -> StepShape {
        let n_samples = || u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        StepShape::of(self.rows.unwrap_or_else(n_samples), self.edges)
    }
}

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepDone {
    /// Optimizer step, from 0.
    pub step: u64,
    /// Epoch, from 0.
    pub epoch: u64,
    /// The knobs that were asked for.
    pub rung: Knobs,
    /// What was run and counts, in order; after a failure these are the halves.
    pub micro_batches: Vec<MicroBatch>,
    /// What the samples of the micro-batches have of their unit of length before they are padded, where they are padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_positions: Option<u64>,
    /// Expected peak of the micro-batch that was to reach most, once there is an observation.
    pub predicted: Option<Bytes>,
    /// Upper bound of that peak, once there is an observation.
    pub upper: Option<Bytes>,
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// Bytes in use after the step.
    pub in_use: Bytes,
    /// Bytes reserved after the step.
    pub reserved: Bytes,
    /// High-water mark of the step's committed part.
    pub peak: Bytes,
    /// The size of the largest pages in which that was reserved, or zero where the device tells exact peaks.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub page: Bytes,
    /// The most that a product of matrices has packed until then, with what threads take beside the first; zero where that does
    /// not count in peaks.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub packed: Bytes,
    /// Capacity during the step.
    pub capacity: Bytes,
    /// Budget during the step.
    pub budget: Bytes,
    /// Samples that could not be read, and were left out as the configuration says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<u64>,
    /// What the step did for each task, where the samples have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskStep>,
    /// Mean loss over the samples of the step, or over their positions.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Global norm of the step's gradient.
    #[serde(deserialize_with = "null_as_nan")]
    pub gradient_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Wall time of the step in seconds.
    pub seconds: f64,
    /// How long of that it waited for other ranks, and added what all had made; nothing where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<f64>,
    /// How far ahead its samples were read; nothing where they are not streamed, or the log is of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply: Option<SupplyStep>,
    /// Whether the optimizer took the step.
    pub committed: bool,
}

/// One task in one optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStep {
    /// Samples of the task in the step.
    pub samples: u32,
    /// Mean loss over them; `None` without any.
    pub loss: Option<f64>,
    /// Norm of the gradient of the task's weighted loss at the last shared layer, where it is measured.
    pub gradient_norm: Option<f64>,
    /// Weight of the task's loss in the step.
    pub weight: f64,
}

impl StepDone {
    /// Returns how many samples the step holds.
    pub fn n_samples(&self) -> u64 {
        self.micro_batches.iter().map(|it| it.ids.len() as u64).sum()
    }

    /// Returns how many rows the samples have in the micro-batches: one each, or fewer where they are packed.
    pub fn n_rows(&self) -> u64 {
        self.micro_batches.iter().map(|it| u64::from(it.shape().samples)).sum()
    }

    /// Returns how many positions the micro-batches have with their padding.
    pub fn padded_positions(&self) -> u64 {
        self.micro_batches.iter().map(|it| it.shape().positions()).fold(0, u64::saturating_add)
    }

    /// Returns the largest micro-batch's shape, which is the one that made the peak.
    pub fn largest_shape(&self) -> Option<StepShape> {
        self.micro_batches.iter().map(MicroBatch::shape).max_by_key(|it| (it.positions(), *it))
    }
}

/// Gradient checkpointing was switched on for samples from some edge on, because one of them alone did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GradientCheckpointing {
    /// The first step with it.
    pub step: u64,
    /// Which samples have it.
    pub recompute: Recompute,
    /// What was planned anew for steps with it, in JSON, so that a log can be replayed without anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<String>,
}

/// A change of the memory that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetChanged {
    /// The next step.
    pub step: u64,
    /// The memory from that step on.
    #[serde(flatten)]
    pub budget: Budget,
}

/// A decision, with the step after which it was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The step that had just ended or failed.
    pub step: u64,
    /// What was decided.
    pub decision: Decision,
}

/// A reading above its upper bound: it was not foreseen, and every bound has grown by what it lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundExceeded {
    /// The step that had just ended or failed; the steps done before a validation.
    pub step: u64,
    /// Whether it was a micro-batch of a step, or one of a validation.
    #[serde(default)]
    pub phase: Phase,
    /// Shape of the micro-batch.
    pub shape: StepShape,
    /// What its peak was not to exceed.
    pub upper: Bytes,
    /// Its peak.
    pub peak: Bytes,
}

/// The end of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochDone {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The last step of the epoch.
    pub step: u64,
    /// Samples of the epoch.
    pub samples: u64,
    /// Samples that came in no step, since what was left at the end made no whole one and such are left out.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub dropped: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSaved {
    /// Steps done before it.
    pub step: u64,
    /// Its path inside the run directory.
    pub path: String,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All steps were done.
    Completed,
    /// Validations got no better.
    StoppedEarly,
    /// A signal asked for the end.
    Interrupted,
}

/// The tail of a log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// Steps done.
    pub step: u64,
    /// Why.
    pub reason: EndReason,
    /// Wall time of this part of the run in seconds.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_its_log_line() {
        let event = Event::BudgetChanged(BudgetChanged {
            step: 3,
            budget: Budget { capacity: Bytes::mib(100), budget: Bytes::mib(90) },
        });
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(line, r#"{"event":"budget_changed","step":3,"capacity":104857600,"budget":94371840}"#);
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}
