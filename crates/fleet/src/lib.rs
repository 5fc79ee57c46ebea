//! Who else takes part, and what do we agree on?
//!
//! A training that runs on several devices has a *rank* for each: a thread of one process, or a process of its own, on this
//! machine or another.
//! A [`Fleet`] is the view that one rank has of all of them, and three things that they do together: tell each other numbers,
//! add what each has, and take over what the first has.
//!
//! | ranks | type |
//! |---|---|
//! | one | [`Alone`] |
//! | threads of this process | [`InProcess`] |
//! | processes that `mpirun` has started | `Mpi`, with the feature `mpi`, which takes `mpicc` and libclang to build |
//! | any of these, each with an NVIDIA device | `Nccl` of one of these, with the feature `nccl`; it has run with one rank only |
//!
//! # Invariants
//!
//! * What it carries means nothing to it: whoever calls knows what the numbers are.
//! * Every rank gets the same bits: each value is added on one rank, in the order of the ranks, and all take its sum. As many
//!   threads and processes come to the same bits; another number of ranks may come to others.
//! * Beside the values, a sum takes room for a piece of them, however many there are: [`InProcess`] and `Mpi` say how much.
//! * Ranks that do not do the same thing are told so, each by name: one that adds where another broadcasts, or has more to add.
//! * Nobody waits for ever for a thread that is gone. A process that dies ends all of them, as MPI has it.
//!
//! # Example
//!
//! Four threads, each of which has seen some samples:
//!
//! ```
//! use std::thread;
//!
//! use plimsoll_fleet::{Fleet, FleetError, InProcess};
//!
//! let work = |mut fleet: InProcess| {
//!     let own = u64::from(fleet.rank()) + 1;
//!     let seen = fleet.agree(&[own])?;
//!     assert_eq!(seen, [1, 2, 3, 4]);
//!     // Each has a mean over its own, and counts as much as it has seen.
//!     let weight = own as f32 / seen.iter().sum::<u64>() as f32;
//!     let mut means = [10.0 * weight, 20.0 * weight];
//!     fleet.sum(&mut means)?;
//!     assert!((means[0] - 10.0).abs() < 1e-5);
//!     Ok::<_, FleetError>(())
//! };
//! thread::scope(|scope| {
//!     let ranks: Vec<_> = InProcess::start(4).into_iter().map(|it| scope.spawn(move || work(it))).collect();
//!     ranks.into_iter().try_for_each(|it| it.join().expect("no rank panics"))
//! })?;
//! # Ok::<(), FleetError>(())
//! ```
//!
//! # Sources
//!
//! The three are MPI's `Allgather`, `Alltoall` and `Allgather`, and `Bcast` (MPI 4.1, chapter 6): an `Allreduce` need not give
//! every rank the same bits. That each rank adds a share of the values, and all take the sums, is how long vectors are reduced
//! at the least cost (R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH,
//! 2005).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod error;
mod fingerprint;
mod in_process;
mod meeting;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "nccl")]
mod nccl;

pub use error::{Call, FleetError};
pub use fingerprint::fingerprint;
pub use in_process::InProcess;

#[cfg(feature = "mpi")]
pub use crate::mpi::Mpi;
#[cfg(feature = "nccl")]
pub use crate::nccl::Nccl;

/// What one rank sees of all that take part.
///
/// All of them call the same methods in the same order.
pub trait Fleet {
    /// Returns which of the ranks this is, from 0.
    fn rank(&self) -> u32;

    /// Returns how many there are.
    fn n_ranks(&self) -> u32;

    /// Tells all ranks some numbers, as many on each, and returns those of all, in the order of the ranks.
    ///
    /// # Errors
    ///
    /// [`FleetError`] when the ranks do not do the same thing, or one is gone.
    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError>;

    /// Adds what all ranks have, as many values on each.
    ///
    /// # Errors
    ///
    /// As [`Self::agree`]; the values are any then.
    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError>;

    /// Takes over what rank 0 has, as many bytes on each.
    ///
    /// # Errors
    ///
    /// As [`Self::agree`]; the bytes are any then.
    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError>;

    /// Returns what the first rank has to say, however long that is.
    ///
    /// # Errors
    ///
    /// As [`Self::agree`].
    fn first_says(&mut self, own: &[u8]) -> Result<Vec<u8>, FleetError> {
        let n_bytes = self.agree(&[own.len() as u64])?[0];
        let mut bytes = own.to_vec();
        bytes.resize(usize::try_from(n_bytes).unwrap_or(0), 0);
        self.broadcast(&mut bytes)?;
        Ok(bytes)
    }

    /// Says that this rank has done all that it was to: from here on it is not missed.
    ///
    /// All of them do so at the end. One that is dropped before is gone.
    fn leave(&mut self) {}
}

impl<F: Fleet + ?Sized> Fleet for Box<F> {
    fn rank(&self) -> u32 {
        (**self).rank()
    }

    fn n_ranks(&self) -> u32 {
        (**self).n_ranks()
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        (**self).agree(own)
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        (**self).sum(values)
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        (**self).broadcast(bytes)
    }

    fn leave(&mut self) {
        (**self).leave();
    }
}

/// One rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alone;

impl Fleet for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn n_ranks(&self) -> u32 {
        1
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        Ok(own.to_vec())
    }

    fn sum(&mut self, _values: &mut [f32]) -> Result<(), FleetError> {
        Ok(())
    }

    fn broadcast(&mut self, _bytes: &mut [u8]) -> Result<(), FleetError> {
        Ok(())
    }
}

/// The example of the README, which is tested with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
