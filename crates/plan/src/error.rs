//! Why there is no plan.

use std::path::PathBuf;

use plimsoll_predict::{Phase, PredictError};
use plimsoll_probe::ProbeError;
use plimsoll_types::{Bytes, StepShape};

/// Begins the advice where steps that recompute activations do not fit either.
pub const CHECKPOINTING_WAS_TRIED: &str = "gradient checkpointing was tried; ";

/// Why there is no plan, or why one cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The device.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A reading makes no sense.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// There is nothing to plan.
    #[error("plan: there is no cell; allow at least one batch size and one edge")]
    NoCell,
    /// The device has no pools to book pages in.
    #[error("plan by dry run on {device}: only Vulkan and CUDA devices keep pools; plan by probes instead")]
    NoPools {
        /// The device.
        device: String,
    },
    /// The step looked at a value, which is garbage under a dry run.
    #[error(
        "plan a step of shape {shape}: it reads a value from the device, which is garbage while planning; read values \
         after the step (return the loss instead of logging it), and do not branch on them"
    )]
    ReadsValue {
        /// Shape of the step.
        shape: StepShape,
    },
    /// The smallest cell does not fit.
    #[error(
        "plan: the smallest step ({shape}) needs {needed}, and there is a budget of {budget} ({capacity} in all); {advice}"
    )]
    SmallestDoesNotFit {
        /// The smallest cell.
        shape: StepShape,
        /// What it needs.
        needed: Bytes,
        /// What it may use.
        budget: Bytes,
        /// What there is.
        capacity: Bytes,
        /// What would help.
        advice: String,
    },
    /// One item of the longest edge that is validated does not fit, on a device without pages.
    #[error(
        "plan: the smallest validation of the longest edge ({shape}) needs {needed}, and there is a budget of {budget} \
         ({capacity} in all): it would end the process; a capacity of {enough}, shorter items that are held out, or a \
         smaller model would help"
    )]
    ValidationDoesNotFit {
        /// The smallest cell of the longest edge.
        shape: StepShape,
        /// What it needs.
        needed: Bytes,
        /// What it may use.
        budget: Bytes,
        /// What there is.
        capacity: Bytes,
        /// What would do.
        enough: Bytes,
    },
    /// What is to begin with is not certain to fit, and has not run.
    #[error(
        "{}: {} of edge {} is not certain to fit, and was not run: it is expected to reach {needed}{} of a capacity of \
         {capacity}; the largest that is, {} of edge {}, reached {}; {advice}",
        work(*.phase), samples(*.shape), shape.extent(), at_most(*.upper), samples(largest.0), largest.0.extent(), largest.1
    )]
    OutOfReach {
        /// Whether gradients are computed.
        phase: Phase,
        /// What was approached: one sample of the longest edge, or the smallest batch of it that may be.
        shape: StepShape,
        /// The largest shape that ran on the way, with its peak.
        largest: (StepShape, Bytes),
        /// What it is expected to reach, judging by the trials.
        needed: Bytes,
        /// What it reaches at most, where that is known.
        upper: Option<Bytes>,
        /// What there is.
        capacity: Bytes,
        /// What would help.
        advice: String,
    },
    /// A single tensor of the smallest cell is larger than the device serves.
    #[error(
        "plan: the smallest step ({shape}) holds a tensor of about {tensor}, and the device serves none above {limit}, \
         however much is free; smaller patches or lengths, or a smaller model would help"
    )]
    NeverFits {
        /// The smallest cell.
        shape: StepShape,
        /// Size of the tensor, from its growth over smaller steps.
        tensor: Bytes,
        /// The device's page limit.
        limit: Bytes,
    },
    /// A file cannot be read or written.
    #[error("{action} {path}: {source}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is no plan.
    #[error("read {path}: {reason}; plan again with `plimsoll plan`")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// A plan of something else.
    #[error(
        "use {path}: it was made for {key} `{planned}`, and this is {key} `{now}`; plan again with `plimsoll plan`"
    )]
    OtherProgram {
        /// The file.
        path: PathBuf,
        /// What differs.
        key: &'static str,
        /// In the plan.
        planned: String,
        /// In this run.
        now: String,
    },
    /// A real step failed while it was measured.
    #[error("measure a step of shape {shape}: {source}")]
    Step {
        /// Shape of the step.
        shape: StepShape,
        /// What the shell said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl PlanError {
    /// Whether training steps are too large that may fit where activations are recomputed.
    pub fn may_fit_recomputing(&self) -> bool {
        matches!(self, Self::SmallestDoesNotFit { .. } | Self::OutOfReach { phase: Phase::Train, .. })
    }
}

fn at_most(upper: Option<Bytes>) -> String {
    upper.map_or_else(String::new, |upper| format!(", and at most {upper},"))
}

fn work(phase: Phase) -> &'static str {
    match phase {
        Phase::Train => "train",
        Phase::Infer => "validate",
    }
}

fn samples(shape: StepShape) -> String {
    if shape.samples == 1 { "one sample".to_owned() } else { format!("a batch of {}", shape.samples) }
}
