//! What ranks cannot do together.

use std::fmt;

/// What ranks do together, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Tell each other so many numbers.
    Agree(usize),
    /// Add so many values.
    Sum(usize),
    /// Take over so many bytes.
    Broadcast(usize),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agree(n) => write!(f, "tells {n} numbers"),
            Self::Sum(n) => write!(f, "adds {n} values"),
            Self::Broadcast(n) => write!(f, "takes over {n} bytes"),
        }
    }
}

/// Why ranks did not do something together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// Another rank does something else.
    #[error("rank {rank} {call} where rank {own_rank} {own}: all ranks do the same, in one order")]
    Differs {
        /// This rank.
        own_rank: u32,
        /// What it does.
        own: Call,
        /// The first that does something else.
        rank: u32,
        /// What that does.
        call: Call,
    },
    /// A rank has ended, or panicked, before what the others do.
    #[error("rank {rank} is gone, and all ranks take part in everything")]
    Gone {
        /// The one that went first.
        rank: u32,
    },
    /// MPI cannot be used.
    #[error("{0}")]
    Mpi(&'static str),
    /// NCCL cannot be used, or fails.
    #[error("ranks cannot add on NVIDIA devices: {0}")]
    Nccl(String),
    /// NCCL cannot be used by another rank.
    #[error("rank {rank} cannot add on its device, and says why: without it none does")]
    Apart {
        /// The first that cannot.
        rank: u32,
    },
}

/// Holds what every rank does against what this one does.
pub(crate) fn check(own_rank: u32, calls: impl IntoIterator<Item = Call>, own: Call) -> Result<(), FleetError> {
    match (0..).zip(calls).find(|(_, call)| *call != own) {
        Some((rank, call)) => Err(FleetError::Differs { own_rank, own, rank, call }),
        None => Ok(()),
    }
}
