//! Ranks that are processes, on one machine or several.

use mpi::Threading;
use mpi::collective::{CommunicatorCollectives, Root};
use mpi::environment::{Universe, initialize_with_threading};
use mpi::topology::{Communicator, SimpleCommunicator};

use crate::error::check;
use crate::{Call, Fleet, FleetError};

/// The most bytes at a time: MPI counts in 32 bits.
const BYTES_AT_ONCE: usize = 1 << 24;

/// The most values at a time, as many bytes. Where there are more ranks than cores, ranks wait for the scheduler at every piece:
/// pieces of a sixteenth took ten times as long there, and where there are cores for all they took half as long.
const VALUES_AT_ONCE: usize = BYTES_AT_ONCE / size_of::<f32>();

/// The most numbers that ranks tell each other together with what they are about to do.
const AT_ONCE: usize = 6;

/// A rank that is a process, which `mpirun` or a scheduler has started with the others; one that was started by itself is alone.
///
/// A process that dies, or ends before it [leaves](Fleet::leave), ends all of them, unless MPI is told otherwise.
/// Before ranks add or take over they tell each other that they are about to: one more exchange, of eight numbers.
///
/// Values are added in pieces of 16 MiB, for which a rank takes as much room beside them.
pub struct Mpi {
    world: SimpleCommunicator,
    // Known beyond the end of MPI, which ends the program when it is asked after that.
    rank: u32,
    n_ranks: u32,
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
        let world = universe.world();
        let (rank, n_ranks) = (world.rank().unsigned_abs(), world.size().unsigned_abs());
        Ok(Self { world, rank, n_ranks, universe: Some(universe) })
    }

    /// Tells all ranks what this one is about to do, and the first few numbers that go with it; returns those of all, and refuses
    /// what not all are about to do.
    fn tell(&self, own: Call, numbers: &[u64]) -> Result<Vec<u64>, FleetError> {
        let mut told = [0; AT_ONCE + 2];
        told[..2].copy_from_slice(&match own {
            Call::Agree(n) => [0, n as u64],
            Call::Sum(n) => [1, n as u64],
            Call::Broadcast(n) => [2, n as u64],
        });
        let numbers = &numbers[..numbers.len().min(AT_ONCE)];
        told[2..][..numbers.len()].copy_from_slice(numbers);
        let mut all = vec![0; told.len() * self.n_ranks() as usize];
        self.world.all_gather_into(&told[..], &mut all[..]);
        let of_ranks = all.chunks_exact(told.len());
        let calls = of_ranks.clone().map(|it| {
            let n = usize::try_from(it[1]).unwrap_or(usize::MAX);
            match it[0] {
                0 => Call::Agree(n),
                1 => Call::Sum(n),
                _ => Call::Broadcast(n),
            }
        });
        check(self.rank(), calls, own)?;
        Ok(of_ranks.flat_map(|it| &it[2..][..numbers.len()]).copied().collect())
    }

    /// Adds values of which each rank has an equal share: it gets its own from all, adds them in the order of the ranks, and
    /// gives the sums to all.
    fn sum_shares(&self, values: &mut [f32], room: &mut [f32]) {
        let room = &mut room[..values.len()];
        self.world.all_to_all_into(&*values, room);
        let (sums, others) = room.split_at_mut(values.len() / self.n_ranks() as usize);
        for of_rank in others.chunks_exact(sums.len()) {
            sums.iter_mut().zip(of_rank).for_each(|(sum, value)| *sum += value);
        }
        self.world.all_gather_into(&*sums, values);
    }
}

impl Fleet for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        let told = self.tell(Call::Agree(own.len()), own)?;
        if own.len() <= AT_ONCE {
            return Ok(told);
        }
        let mut all = vec![0; own.len() * self.n_ranks() as usize];
        self.world.all_gather_into(own, &mut all[..]);
        Ok(all)
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        self.tell(Call::Sum(values.len()), &[])?;
        let n_ranks = self.n_ranks() as usize;
        let (even, rest) = values.split_at_mut(values.len() / n_ranks * n_ranks);
        let at_once = (VALUES_AT_ONCE / n_ranks).max(1) * n_ranks;
        let mut room = vec![0.0; even.len().min(at_once)];
        even.chunks_mut(at_once).for_each(|it| self.sum_shares(it, &mut room));
        if !rest.is_empty() {
            let mut even = vec![0.0; n_ranks];
            even[..rest.len()].copy_from_slice(rest);
            self.sum_shares(&mut even, &mut vec![0.0; n_ranks]);
            rest.copy_from_slice(&even[..rest.len()]);
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        self.tell(Call::Broadcast(bytes.len()), &[])?;
        let first = self.world.process_at_rank(0);
        bytes.chunks_mut(BYTES_AT_ONCE).for_each(|it| first.broadcast_into(it));
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
