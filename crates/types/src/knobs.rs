//! What a policy may turn, and the order in which it turns it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::StepShape;

/// The two knobs of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Knobs {
    /// Crop edge in pixels at the input resolution, or the length that sequences are padded to.
    pub patch_size: u32,
    /// Samples in one forward and backward pass.
    pub micro_batch_size: u32,
}

impl Knobs {
    /// Returns the shape of a full micro-batch.
    pub const fn shape(self) -> StepShape {
        StepShape::new(self.micro_batch_size, self.patch_size)
    }

    /// Returns `n·e²`, the work of a step on square patches, and nearly its memory less what is constant.
    pub fn work(self) -> f64 {
        let (samples, edge) = (f64::from(self.micro_batch_size), f64::from(self.patch_size));
        samples * edge * edge
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {}, batch {}", self.patch_size, self.micro_batch_size)
    }
}

/// All (patch, batch) cells that a policy may use, ordered so that memory only grows from rung to rung.
///
/// One dimension instead of two: patch and batch cannot oscillate against each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Knobs>", into = "Vec<Knobs>")]
pub struct Ladder(Vec<Knobs>);

/// Rungs that make no ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// There is no rung.
    #[error("the ladder has no rung")]
    Empty,
    /// A rung needs less than the one below it.
    #[error("rung {index} ({upper}) does not need more memory than the rung below it ({lower})")]
    NotIncreasing {
        /// Index of the upper rung of the pair.
        index: usize,
        /// The rung below.
        lower: Knobs,
        /// The rung at `index`.
        upper: Knobs,
    },
}

impl Ladder {
    /// Accepts rungs, smallest first.
    ///
    /// # Errors
    ///
    /// [`LadderError::Empty`] without a rung, [`LadderError::NotIncreasing`] when a rung does not cover the one below.
    pub fn try_new(rungs: Vec<Knobs>) -> Result<Self, LadderError> {
        if rungs.is_empty() {
            return Err(LadderError::Empty);
        }
        let unsorted = rungs.windows(2).position(|pair| pair[0] == pair[1] || !pair[1].shape().covers(pair[0].shape()));
        match unsorted {
            Some(at) => Err(LadderError::NotIncreasing { index: at + 1, lower: rungs[at], upper: rungs[at + 1] }),
            None => Ok(Self(rungs)),
        }
    }

    /// Returns the rungs, smallest first; there is at least one.
    pub fn rungs(&self) -> &[Knobs] {
        &self.0
    }

    /// Returns the rung at `index`, or the topmost when there is none so high.
    pub fn at(&self, index: usize) -> Knobs {
        self.0[index.min(self.top())]
    }

    /// Returns the index of the largest rung.
    pub fn top(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the index of a rung.
    pub fn index_of(&self, knobs: Knobs) -> Option<usize> {
        self.0.iter().position(|it| *it == knobs)
    }
}

impl TryFrom<Vec<Knobs>> for Ladder {
    type Error = LadderError;

    fn try_from(rungs: Vec<Knobs>) -> Result<Self, Self::Error> {
        Self::try_new(rungs)
    }
}

impl From<Ladder> for Vec<Knobs> {
    fn from(ladder: Ladder) -> Self {
        ladder.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs(patch_size: u32, micro_batch_size: u32) -> Knobs {
        Knobs { patch_size, micro_batch_size }
    }

    #[test]
    fn a_ladder_only_goes_up() {
        let ladder = Ladder::try_new(vec![knobs(16, 2), knobs(24, 2), knobs(24, 3)]).unwrap();
        assert_eq!((ladder.top(), ladder.at(99), ladder.index_of(knobs(24, 2))), (2, knobs(24, 3), Some(1)));
        assert_eq!(Ladder::try_new(vec![]), Err(LadderError::Empty));
        let error = Ladder::try_new(vec![knobs(24, 2), knobs(16, 4)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rung 1 (patch 16, batch 4) does not need more memory than the rung below it (patch 24, batch 2)"
        );
        assert!(Ladder::try_new(vec![knobs(24, 2), knobs(24, 2)]).is_err());
    }
}
