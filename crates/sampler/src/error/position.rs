//! Where nothing can go on.

use crate::{PackError, PlanError};

/// A position that a plan does not reach; each message finishes "failed to …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PositionError {
    /// A position was taken in another plan.
    #[error("resume an epoch: the position was taken with `{key}` {taken}, the plan has {here}")]
    OtherPlan {
        /// What differs.
        key: &'static str,
        /// The position's value.
        taken: u64,
        /// The plan's value.
        here: u64,
    },
    /// A position lies outside its epoch.
    #[error("resume an epoch: the position says `{key}` {value}, at most {most} is possible")]
    BeyondEpoch {
        /// What is out of range.
        key: &'static str,
        /// The position's value.
        value: u64,
        /// The most that is possible.
        most: u64,
    },
    /// There is no plan to go on with.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are no rows to go on with.
    #[error(transparent)]
    Pack(#[from] PackError),
}
