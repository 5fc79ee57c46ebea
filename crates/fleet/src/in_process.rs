//! Ranks that are threads of one process.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::meeting::{Brought, Meeting};
use crate::{Call, Fleet, FleetError};

/// The most values at a time.
const VALUES_AT_ONCE: usize = 1 << 16;

/// The most bytes at a time: as many as the values have.
const BYTES_AT_ONCE: usize = 4 * VALUES_AT_ONCE;

/// A rank that is a thread of this process: with a device of its own, or a share of the processor.
///
/// Values are added in pieces of 256 KiB: each rank lays its own out, adds what all have of its share of the piece, and takes the
/// sums from those who have made them.
/// So a rank adds its share alone, and reads and writes its own values once.
/// Beside these it takes half a MiB for each rank and half a MiB in all, however many values there are, and half a MiB for what
/// was broadcast, kept until the ranks are dropped.
#[derive(Debug)]
pub struct InProcess {
    rank: u32,
    meeting: Arc<Meeting>,
    /// What the ranks have laid out: even pieces and odd ones, so that one is read while the next is written.
    desks: Arc<[[Desk; 2]]>,
    /// Pieces of everything so far, as many on each rank: one that still reads the last piece is not disturbed by the next.
    n_pieces: usize,
}

/// What one rank has laid out, which it alone writes.
#[derive(Debug, Default)]
struct Desk {
    /// Its own values of a piece.
    values: RwLock<Vec<f32>>,
    /// The sums of its share of a piece.
    sums: RwLock<Vec<f32>>,
    /// A piece of what all take over.
    bytes: RwLock<Vec<u8>>,
}

impl InProcess {
    /// Returns so many ranks, each for a thread of its own, in their order.
    ///
    /// One that is dropped is gone: what the others do after that without it is [`FleetError::Gone`] for each of them.
    pub fn start(n_ranks: u32) -> Vec<Self> {
        let meeting = Arc::new(Meeting::new(n_ranks));
        let desks: Arc<[[Desk; 2]]> = (0..n_ranks).map(|_| <[Desk; 2]>::default()).collect();
        let rank = |rank| Self { rank, meeting: Arc::clone(&meeting), desks: Arc::clone(&desks), n_pieces: 0 };
        (0..n_ranks).map(rank).collect()
    }

    /// Waits for all ranks, which are to do the same: what each has laid out is there for all then.
    fn meet(&self, call: Call) -> Result<(), FleetError> {
        self.meeting.meet(self.rank, Brought { call, numbers: Vec::new() }).map(drop)
    }

    /// Returns what a rank has laid out of a piece, or is to lay out.
    fn desk(&self, rank: usize, piece: usize) -> &Desk {
        &self.desks[rank][(self.n_pieces + piece) % 2]
    }

    fn own_desk(&self, piece: usize) -> &Desk {
        self.desk(self.rank as usize, piece)
    }

    /// Adds what all have laid out of this rank's share of a piece, in the order of the ranks.
    fn add_share(&self, piece: usize, len: usize) {
        let share = share(len, self.rank as usize, self.desks.len());
        let sums = &self.own_desk(piece).sums;
        lay_out(sums, &read(&self.desk(0, piece).values)[share.clone()]);
        let mut sums = write(sums);
        for rank in 1..self.desks.len() {
            let values = read(&self.desk(rank, piece).values);
            sums.iter_mut().zip(&values[share.clone()]).for_each(|(sum, value)| *sum += value);
        }
    }

    /// Takes the sums of a piece from all who have made them.
    fn take_sums(&self, piece: usize, values: &mut [f32]) {
        let (len, n_ranks) = (values.len(), self.desks.len());
        for rank in 0..n_ranks {
            values[share(len, rank, n_ranks)].copy_from_slice(&read(&self.desk(rank, piece).sums));
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.meeting.leave(self.rank);
    }
}

impl Fleet for InProcess {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn n_ranks(&self) -> u32 {
        u32::try_from(self.desks.len()).unwrap_or(u32::MAX)
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        let all = self.meeting.meet(self.rank, Brought { call: Call::Agree(own.len()), numbers: own.to_vec() })?;
        Ok(all.iter().flat_map(|it| &it.numbers).copied().collect())
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        let (call, len) = (Call::Sum(values.len()), values.len());
        let (n_pieces, piece) = pieces(len, VALUES_AT_ONCE);
        // A piece is laid out in one round, added in the next, and taken in the one after that.
        for round in 0..n_pieces + 2 {
            if let Some(at) = round.checked_sub(2) {
                self.take_sums(at, &mut values[piece(at)]);
            }
            if let Some(at) = round.checked_sub(1).filter(|it| *it < n_pieces) {
                self.add_share(at, piece(at).len());
            }
            if round < n_pieces {
                lay_out(&self.own_desk(round).values, &values[piece(round)]);
            }
            if round <= n_pieces {
                self.meet(call)?;
            }
        }
        self.n_pieces += n_pieces;
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        let (call, len) = (Call::Broadcast(bytes.len()), bytes.len());
        let (n_pieces, piece) = pieces(len, BYTES_AT_ONCE);
        // A piece is laid out in one round, and taken in the next.
        for round in 0..=n_pieces {
            if let Some(at) = round.checked_sub(1).filter(|_| 0 < self.rank) {
                bytes[piece(at)].copy_from_slice(&read(&self.desk(0, at).bytes));
            }
            if self.rank == 0 && round < n_pieces {
                lay_out(&self.own_desk(round).bytes, &bytes[piece(round)]);
            }
            if round == 0 || round < n_pieces {
                self.meet(call)?;
            }
        }
        self.n_pieces += n_pieces;
        Ok(())
    }
}

/// Returns how many pieces there are, and where each is.
fn pieces(len: usize, at_once: usize) -> (usize, impl Fn(usize) -> Range<usize>) {
    (len.div_ceil(at_once), move |at| at_once * at..len.min(at_once * (at + 1)))
}

/// Returns what a rank adds of a piece.
fn share(len: usize, rank: usize, n_ranks: usize) -> Range<usize> {
    len * rank / n_ranks..len * (rank + 1) / n_ranks
}

fn lay_out<T: Copy>(desk: &RwLock<Vec<T>>, piece: &[T]) {
    let mut desk = write(desk);
    desk.clear();
    desk.extend_from_slice(piece);
}

// Nobody waits at a desk: between two meetings it is either read or written.

fn read<T>(desk: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    desk.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(desk: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    desk.write().unwrap_or_else(PoisonError::into_inner)
}
