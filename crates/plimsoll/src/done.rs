//! What a step did.

use plimsoll_step::StepPart;
use plimsoll_types::{Attempt, Bytes};

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The mean loss over all samples.
    pub loss: f64,
    /// The global norm of the gradient, before it was shortened; infinite or not a number in a step that was passed over.
    pub gradient_norm: f64,
    /// The parts that ran, none in a step that was passed over; a range counts the samples from the longest on.
    pub parts: Vec<StepPart>,
    /// Parts that ran out of memory, and ran again in halves; of each attempt where the optimizer's step had to be taken again.
    pub failures: Vec<Attempt>,
    /// The high-water mark; of a step that was passed over, that of its last part.
    pub peak: Bytes,
    /// What was not to be exceeded.
    pub budget: Bytes,
    /// Whether the gradient of the multiplied loss overflowed: nothing has happened then, and the scale may be smaller now.
    pub is_skipped: bool,
    /// Said once, by the first step in several parts of a model whose forward passes change it: layers that look at all
    /// samples of a batch, such as a batch normalisation, see those of a part.
    pub changes_statistics: bool,
}
