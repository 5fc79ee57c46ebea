//! What an attempt at a step comes to.

use std::time::Duration;

use burn::optim::GradientsParams;
use plimsoll_types::Bytes;

use crate::request::RanPart;

/// A step that is ready for the optimizer.
pub struct StepOutcome {
    /// The gradient of the mean loss over all samples of the step.
    pub gradients: GradientsParams,
    /// The mean loss over all samples; `None` where whoever makes the gradients keeps it.
    pub loss: Option<f64>,
    /// The global norm of the gradient.
    pub gradient_norm: f64,
    /// Of each task, the mean loss over its samples; see [`Loss::of_tasks`](crate::Loss::of_tasks).
    pub of_tasks: Vec<f64>,
    /// Of each probe that was asked for, the norm of its gradient.
    pub task_norms: Vec<f64>,
    /// The parts that ran, in order.
    pub parts: Vec<RanPart>,
    /// Bytes in use before the step.
    pub resident: Bytes,
    /// Bytes in use after the last part.
    pub in_use: Bytes,
    /// High-water mark of the parts that ran.
    pub peak: Bytes,
    /// What watching over it took.
    pub times: StepTimes,
}

/// What watching over a step took, beside the step itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Reading memory.
    pub probe: Duration,
    /// Reading the losses, and what depends on every gradient: on a device that works beside the host, what was waited for
    /// the passes is in it.
    pub check: Duration,
    /// How often that was waited for.
    pub n_reads: u32,
    /// Looking ahead, and dividing.
    pub guard: Duration,
    /// Waiting for other ranks, and adding what they have made.
    pub ranks: Duration,
}
