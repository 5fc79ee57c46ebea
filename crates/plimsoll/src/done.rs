//! What a step did.

use std::cmp::Ordering;

use plimsoll_step::{Elsewhere, StepPart};
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
    /// Parts that ran out of memory, on any device, and ran again in halves; of each attempt where the optimizer's step had to be
    /// taken again.
    pub failures: Vec<Attempt>,
    /// The high-water mark; of a step that was passed over, that of its last part.
    pub peak: Bytes,
    /// What was not to be exceeded.
    pub budget: Bytes,
    /// What was reached on each device, where there are [several](crate::StepBuilder::also_on): the tightest first, of whose
    /// budget the peak has left the smallest share. Peak and budget above are those of the first that was named.
    pub devices: Vec<OnDevice>,
    /// Whether the gradient of the multiplied loss overflowed: nothing has happened then, and the scale may be smaller now.
    pub is_skipped: bool,
    /// Said once, by the first step in several parts of a model whose forward passes change it: layers that look at all
    /// samples of a batch, such as a batch normalisation, see those of a part.
    pub changes_statistics: bool,
}

/// What a step reached on one of several devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDevice {
    /// Its name: the kind, and what it calls itself.
    pub device: String,
    /// The high-water mark there.
    pub peak: Bytes,
    /// What was not to be exceeded there.
    pub budget: Bytes,
}

impl OnDevice {
    pub(crate) fn of(other: &Elsewhere) -> Self {
        Self { device: other.name().to_owned(), peak: other.peak(), budget: other.budget().budget }
    }

    /// Orders those of whose budget less is left first.
    pub(crate) fn by_tightness(&self, other: &Self) -> Ordering {
        let [own, others] = [(self, other), (other, self)].map(|(a, b)| u128::from(a.peak.0) * u128::from(b.budget.0));
        others.cmp(&own)
    }
}
