//! What a policy answers, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Knobs};

/// A policy's answer to one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Decision {
    /// The next step uses the same knobs.
    Keep {
        /// Why nothing changes.
        reason: KeepReason,
    },
    /// The next step uses other knobs.
    Move(Change),
    /// The next steps use other batch sizes, one for each cell.
    Resize(Resize),
    /// The knobs no longer go up.
    Brake {
        /// What there was too much of.
        reason: BrakeReason,
    },
}

/// A change of knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The knobs until now.
    pub from: Knobs,
    /// The knobs from the next step on.
    pub to: Knobs,
    /// Why.
    pub reason: MoveReason,
}

/// A change of the largest micro-batch of each cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    /// The batch sizes until now, in the order of the cells.
    pub from: Vec<u32>,
    /// The batch sizes from the next step on.
    pub to: Vec<u32>,
    /// Why.
    pub reason: MoveReason,
}

/// Why the knobs stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum KeepReason {
    /// The run is too young to judge.
    WarmUp {
        /// Steps until decisions begin.
        steps_left: u64,
    },
    /// The last change is too recent to judge.
    Cooldown {
        /// Steps until decisions begin again.
        steps_left: u64,
    },
    /// The window holds too few steps of the current rung.
    TooFewSamples {
        /// Steps seen at this rung.
        seen: u32,
        /// Steps needed.
        needed: u32,
    },
    /// The current rung is the highest that is certified.
    HighestCertified,
    /// The highest certified rung would gain too little.
    GainTooSmall,
    /// The peak is inside the dead band around the target.
    InDeadBand,
    /// The peak asks for a change, but both knobs are at their bounds.
    AtBounds,
    /// The policy never moves.
    Fixed,
    /// The brake is on, as [`Decision::Brake`] has said.
    Braked,
}

/// Why the brake is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum BrakeReason {
    /// The knobs have changed as often as they may; they no longer go down either.
    Adjustments {
        /// Changes so far.
        count: u32,
    },
    /// As many growths were undone as may be, though the memory was the same as before.
    Reversals {
        /// Those that have not lapsed.
        count: u32,
    },
}

/// Why the knobs change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum MoveReason {
    /// A higher rung's upper bound fits.
    Certified {
        /// Upper bound of the new rung.
        upper: Bytes,
        /// What it had to fit into.
        limit: Bytes,
    },
    /// The peak of the window is above what is allowed.
    PeakTooHigh {
        /// Peak of the window.
        peak: Bytes,
        /// What it had to stay below.
        limit: Bytes,
    },
    /// The peak of the window is below the dead band.
    PeakTooLow {
        /// Peak of the window.
        peak: Bytes,
        /// The lower edge of the dead band.
        limit: Bytes,
    },
    /// A step ran out of memory.
    OutOfMemory {
        /// Out-of-memory steps so far, this one included.
        count: u32,
    },
    /// The budget is below the upper bound of the current rung: it fell, or the bound rose.
    BudgetFell {
        /// Upper bound of the current rung.
        upper: Bytes,
        /// The budget.
        budget: Bytes,
    },
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp { steps_left } => write!(f, "warming up for {steps_left} more steps"),
            Self::Cooldown { steps_left } => write!(f, "cooling down for {steps_left} more steps"),
            Self::TooFewSamples { seen, needed } => write!(f, "{seen} of {needed} steps seen at this rung"),
            Self::HighestCertified => f.write_str("the highest certified rung is in use"),
            Self::GainTooSmall => f.write_str("the highest certified rung would gain too little"),
            Self::InDeadBand => f.write_str("the peak is inside the dead band"),
            Self::AtBounds => f.write_str("both knobs are at their bounds"),
            Self::Fixed => f.write_str("the policy is fixed"),
            Self::Braked => f.write_str("the brake is on"),
        }
    }
}

impl fmt::Display for BrakeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adjustments { count } => write!(f, "the knobs have changed as often as they may ({count}), and stay"),
            Self::Reversals { count } => {
                write!(f, "the policy no longer goes up: growths undone with the memory as it was: {count}")
            }
        }
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certified { upper, limit } => write!(f, "at most {upper} needed, {limit} allowed"),
            Self::PeakTooHigh { peak, limit } => write!(f, "peak {peak}, at most {limit} allowed"),
            Self::PeakTooLow { peak, limit } => write!(f, "peak {peak}, room up to {limit}"),
            Self::OutOfMemory { count } => write!(f, "out of memory, for the {}", ordinal(*count)),
            Self::BudgetFell { upper, budget } => write!(f, "at most {upper} needed, the budget is only {budget}"),
        }
    }
}

fn ordinal(n: u32) -> String {
    let suffix = match (n % 10, n % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{n}{suffix} time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_sentences() {
        let reason = MoveReason::Certified { upper: Bytes::mib(90), limit: Bytes::mib(100) };
        assert_eq!(reason.to_string(), "at most 90.00 MiB needed, 100.00 MiB allowed");
        assert_eq!(MoveReason::OutOfMemory { count: 22 }.to_string(), "out of memory, for the 22nd time");
        assert_eq!(MoveReason::OutOfMemory { count: 11 }.to_string(), "out of memory, for the 11th time");
    }
}
