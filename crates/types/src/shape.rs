//! What a batch looks like to the memory model.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many features [`StepShape::features`] has.
pub const N_FEATURES: usize = 4;

/// The padded shape of one micro-batch: how many samples, and the edge that they are padded or cropped to.
///
/// The edge is a length in tokens or frames for sequences and a side in pixels for square patches.
/// Both are what the kernels see, after padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepShape {
    /// Samples in the micro-batch.
    pub samples: u32,
    /// Edge of one sample: pixels along a side, or positions along a sequence.
    pub edge: u32,
}

impl StepShape {
    /// Describes `samples` samples of this `edge`.
    pub const fn new(samples: u32, edge: u32) -> Self {
        Self { samples, edge }
    }

    /// Returns `[1, n, n·e, n·e²]` for `n` samples of edge `e`: constants, heads, halos or sequences, and planes or
    /// attention maps.
    ///
    /// Every tensor of a fixed training step has a size that is a non-negative combination of these.
    ///
    /// # Sources
    ///
    /// The `B·L` and `B·L²` terms of Korthikanti et al. (arXiv 2205.05198), for transformers; perimeter
    /// and area for images.
    pub fn features(self) -> [f64; N_FEATURES] {
        let (n, e) = (f64::from(self.samples), f64::from(self.edge));
        [1.0, n, n * e, n * e * e]
    }

    /// Whether this shape is at least as large as `other` in every feature.
    pub fn covers(self, other: Self) -> bool {
        self.features().iter().zip(other.features()).all(|(own, theirs)| *own >= theirs)
    }
}

impl fmt::Display for StepShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.samples, self.edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_covers_what_is_smaller_in_every_feature() {
        assert!(StepShape::new(4, 32).covers(StepShape::new(4, 16)));
        assert!(StepShape::new(4, 32).covers(StepShape::new(4, 32)));
        assert!(!StepShape::new(16, 16).covers(StepShape::new(4, 64)));
        assert!(!StepShape::new(4, 64).covers(StepShape::new(16, 16)));
    }
}
