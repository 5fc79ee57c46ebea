//! Ranks that are processes, on one machine or several.

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives, Root, SystemOperation};
use mpi::environment::{Universe, initialize_with_threading};
use mpi::topology::{Communicator, SimpleCommunicator};

use crate::error::check;
use crate::{Call, Fleet, FleetError};

/// The most values, or bytes, at a time: MPI counts in 32 bits, and a sum takes room for as many.
const AT_ONCE: usize = 1 << 22;

/// A rank that is a process, which `mpirun` or a scheduler has started with the others; one that was started by itself is alone.
///
/// A process that dies, or ends before it [leaves](Fleet::leave), ends all of them, unless MPI is told otherwise.
/// Before ranks do anything together they tell each other what they are about to do: one more exchange, of two numbers.
pub struct Mpi {
    world: SimpleCommunicator,
    /// Ends MPI when it is dropped, and waits there for the others.
    universe: Option<Universe>,
}

impl Mpi {
    /// Joins the others; all of them do, once in a process.
    ///
    /// # Errors
    ///
    /// [`FleetError::Mpi`] when this process has joined before, or the library allows no calls but those of the main thread.
    pub fn join() -> Result<Self, FleetError> {
        let joined = initialize_with_threading(Threading::Serialized);
        let Some((universe, threading)) = joined else {
            return Err(FleetError::Mpi("this process has joined the ranks of MPI before, and can do so once"));
        };
        if threading < Threading::Serialized {
            return Err(FleetError::Mpi(
                "this MPI takes calls from the main thread only: build it with thread support",
            ));
        }
        Ok(Self { world: universe.world(), universe: Some(universe) })
    }

    /// Refuses what not all ranks are about to do.
    fn check(&self, own: Call) -> Result<(), FleetError> {
        let of = |it| match it {
            Call::Agree(n) => [0, n as u64],
            Call::Sum(n) => [1, n as u64],
            Call::Broadcast(n) => [2, n as u64],
        };
        let mut all = vec![0_u64; 2 * self.n_ranks() as usize];
        self.world.all_gather_into(&of(own)[..], &mut all[..]);
        let calls = all.chunks_exact(2).map(|it| {
            let n = usize::try_from(it[1]).unwrap_or(usize::MAX);
            match it[0] {
                0 => Call::Agree(n),
                1 => Call::Sum(n),
                _ => Call::Broadcast(n),
            }
        });
        check(self.rank(), calls, own)
    }
}

impl Fleet for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank().unsigned_abs()
    }

    fn n_ranks(&self) -> u32 {
        self.world.size().unsigned_abs()
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        self.check(Call::Agree(own.len()))?;
        let mut all = vec![0; own.len() * self.n_ranks() as usize];
        self.world.all_gather_into(own, &mut all[..]);
        Ok(all)
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        self.check(Call::Sum(values.len()))?;
        let (first, mut sums) = (self.world.process_at_rank(0), vec![0.0; values.len().min(AT_ONCE)]);
        for values in values.chunks_mut(AT_ONCE) {
            if self.rank() == 0 {
                let sums = &mut sums[..values.len()];
                first.reduce_into_root(&*values, sums, SystemOperation::sum());
                values.copy_from_slice(sums);
            } else {
                first.reduce_into(&*values, SystemOperation::sum());
            }
            first.broadcast_into(values);
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        self.check(Call::Broadcast(bytes.len()))?;
        let first = self.world.process_at_rank(0);
        bytes.chunks_mut(AT_ONCE).for_each(|it| first.broadcast_into(it));
        Ok(())
    }

    fn leave(&mut self) {
        self.universe = None;
    }
}

impl Drop for Mpi {
    /// Does not end MPI where this rank is missed: it would wait for others that wait for it. When its process ends, so do all.
    fn drop(&mut self) {
        std::mem::forget(self.universe.take());
    }
}
