//! What of a step does not fit.

use plimsoll_types::Bytes;

/// What of a step does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// One sample alone does not fit.
    #[error("one sample alone does not fit: {}", needs(*.needed, *.budget))]
    NeverFits {
        /// Index of the sample inside the step.
        sample: usize,
        /// What it needed, where that could be measured.
        needed: Option<Bytes>,
        /// What it may use.
        budget: Bytes,
    },
    /// A tensor of one sample alone is larger than the device serves.
    #[error("a tensor of one sample needs {allocation}, and the device serves {largest} at most, however much is free")]
    TensorNeverFits {
        /// Index of the sample inside the step.
        sample: usize,
        /// The tensor.
        allocation: Bytes,
        /// The largest that the device serves.
        largest: Bytes,
    },
    /// A part does not fit, and may not run in halves.
    #[error("{n_samples} samples do not fit at once, and are not to be divided: {}", needs(*.needed, *.budget))]
    NotDivided {
        /// How many the part has.
        n_samples: usize,
        /// What it needs, where that is known.
        needed: Option<Bytes>,
        /// What it may use.
        budget: Bytes,
    },
}

impl GuardError {
    /// Returns the place inside the step of the sample that alone does not fit.
    pub fn sample(&self) -> Option<usize> {
        match self {
            Self::NeverFits { sample, .. } | Self::TensorNeverFits { sample, .. } => Some(*sample),
            Self::NotDivided { .. } => None,
        }
    }

    /// Says the same of another device, with what was needed there, where that is known, and what may be used there.
    #[must_use]
    pub fn elsewhere(self, needed: Option<Bytes>, budget: Bytes) -> Self {
        match self {
            Self::NeverFits { sample, .. } => Self::NeverFits { sample, needed, budget },
            Self::NotDivided { n_samples, .. } => Self::NotDivided { n_samples, needed, budget },
            error @ Self::TensorNeverFits { .. } => error,
        }
    }
}

fn needs(needed: Option<Bytes>, budget: Bytes) -> String {
    match needed {
        Some(needed) => format!("needs {needed}, budget {budget}"),
        None => format!("ran out of memory under a budget of {budget}"),
    }
}
