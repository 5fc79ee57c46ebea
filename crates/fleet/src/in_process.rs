//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::check;
use crate::{Call, Fleet, FleetError};

/// A rank that is a thread of this process: with a device of its own, or a share of the processor.
///
/// What each brings is copied, and every rank adds all of them: memory for the values of all ranks beside their own, while they
/// are added.
#[derive(Debug)]
pub struct InProcess {
    rank: u32,
    n_ranks: u32,
    meeting: Arc<Meeting>,
}

/// Where the ranks meet, again and again.
#[derive(Debug)]
struct Meeting {
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug)]
struct Table {
    /// What each rank has brought to this meeting.
    brought: Vec<Option<Brought>>,
    /// What all have brought to the last one, from when it is complete until each has it.
    all: Option<Arc<[Brought]>>,
    /// How many still have to take it.
    n_to_take: usize,
    /// The rank that went first, if any has.
    gone: Option<u32>,
}

#[derive(Clone, Debug)]
enum Brought {
    Numbers(Vec<u64>),
    Values(Vec<f32>),
    Bytes(Vec<u8>),
    /// Of as many, from a rank that takes over.
    Nothing(usize),
}

impl Brought {
    fn call(&self) -> Call {
        match self {
            Self::Numbers(it) => Call::Agree(it.len()),
            Self::Values(it) => Call::Sum(it.len()),
            Self::Bytes(it) => Call::Broadcast(it.len()),
            Self::Nothing(n) => Call::Broadcast(*n),
        }
    }
}

impl InProcess {
    /// Returns so many ranks, each for a thread of its own, in their order.
    ///
    /// One that is dropped is gone: what the others do after that without it is [`FleetError::Gone`] for each of them.
    pub fn start(n_ranks: u32) -> Vec<Self> {
        let table = Table { brought: vec![None; n_ranks as usize], all: None, n_to_take: 0, gone: None };
        let meeting = Arc::new(Meeting { table: Mutex::new(table), changed: Condvar::new() });
        (0..n_ranks).map(|rank| Self { rank, n_ranks, meeting: Arc::clone(&meeting) }).collect()
    }

    /// Brings something, and returns what all have brought, in the order of the ranks.
    fn meet(&self, brought: Brought) -> Result<Arc<[Brought]>, FleetError> {
        let (own, Meeting { changed, .. }) = (brought.call(), &*self.meeting);
        // Whoever is slow may still have to take what the last meeting came to.
        let mut table = self.wait(self.table(), |it| it.n_to_take == 0)?;
        table.brought[self.rank as usize] = Some(brought);
        if table.brought.iter().all(Option::is_some) {
            table.all = Some(table.brought.iter_mut().filter_map(Option::take).collect());
            table.n_to_take = table.brought.len();
            changed.notify_all();
        }
        let mut table = self.wait(table, |it| 0 < it.n_to_take)?;
        let all = table.all.clone().unwrap_or_else(|| unreachable!("it is there until each has taken it"));
        table.n_to_take -= 1;
        if table.n_to_take == 0 {
            table.all = None;
            changed.notify_all();
        }
        drop(table);
        check(self.rank, all.iter().map(Brought::call), own)?;
        Ok(all)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A rank that panics changes nothing by halves.
        self.meeting.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all of a meeting are there, or have what it came to, and for nobody who is gone.
    fn wait<'a>(
        &self,
        mut table: MutexGuard<'a, Table>,
        is_over: impl Fn(&Table) -> bool,
    ) -> Result<MutexGuard<'a, Table>, FleetError> {
        loop {
            if is_over(&table) {
                return Ok(table);
            }
            if let Some(rank) = table.gone {
                return Err(FleetError::Gone { rank });
            }
            table = self.meeting.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.table().gone.get_or_insert(self.rank);
        self.meeting.changed.notify_all();
    }
}

impl Fleet for InProcess {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn agree(&mut self, own: &[u64]) -> Result<Vec<u64>, FleetError> {
        let all = self.meet(Brought::Numbers(own.to_vec()))?;
        let numbers = |it: &Brought| if let Brought::Numbers(numbers) = it { numbers.clone() } else { Vec::new() };
        Ok(all.iter().flat_map(numbers).collect())
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<(), FleetError> {
        let all = self.meet(Brought::Values(values.to_vec()))?;
        values.fill(0.0);
        for brought in &*all {
            let Brought::Values(of_rank) = brought else { continue };
            values.iter_mut().zip(of_rank).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8]) -> Result<(), FleetError> {
        let is_first = self.rank == 0;
        let all = self.meet(if is_first { Brought::Bytes(bytes.to_vec()) } else { Brought::Nothing(bytes.len()) })?;
        if let Some(Brought::Bytes(first)) = all.first().filter(|_| !is_first) {
            bytes.copy_from_slice(first);
        }
        Ok(())
    }
}
