//! Where threads wait for each other, again and again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::check;
use crate::{Call, FleetError};

/// Where the ranks meet.
#[derive(Debug)]
pub(crate) struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What each rank has brought to this meeting.
    brought: Vec<Option<Brought>>,
    /// What all have brought to the last one, from when it is complete until each has it.
    all: Option<Arc<[Brought]>>,
    /// How many still have to take it.
    n_to_take: usize,
    /// The rank that went first, if any has.
    gone: Option<u32>,
}

/// What a rank comes with.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    /// What it is about to do.
    pub(crate) call: Call,
    /// What it tells the others.
    pub(crate) numbers: Vec<u64>,
}

impl Meeting {
    pub(crate) fn new(n_ranks: u32) -> Self {
        let state = State { brought: vec![None; n_ranks as usize], all: None, n_to_take: 0, gone: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Brings something, and returns what all have brought, in the order of the ranks.
    ///
    /// What each has done before is done for all that come back.
    pub(crate) fn meet(&self, rank: u32, brought: Brought) -> Result<Arc<[Brought]>, FleetError> {
        let own = brought.call;
        // Whoever is slow may still have to take what the last meeting came to.
        let mut state = self.wait(self.state(), |it| it.n_to_take == 0)?;
        state.brought[rank as usize] = Some(brought);
        if state.brought.iter().all(Option::is_some) {
            state.all = Some(state.brought.iter_mut().filter_map(Option::take).collect());
            state.n_to_take = state.brought.len();
            self.changed.notify_all();
        }
        let mut state = self.wait(state, |it| 0 < it.n_to_take)?;
        let all = state.all.clone().unwrap_or_else(|| unreachable!("it is there until each has taken it"));
        state.n_to_take -= 1;
        if state.n_to_take == 0 {
            state.all = None;
            self.changed.notify_all();
        }
        drop(state);
        check(rank, all.iter().map(|it| it.call), own)?;
        Ok(all)
    }

    /// Tells the others not to wait for this rank any more.
    pub(crate) fn leave(&self, rank: u32) {
        self.state().gone.get_or_insert(rank);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A rank that panics changes nothing by halves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all of a meeting are there, or have what it came to, and for nobody who is gone.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        is_over: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>, FleetError> {
        loop {
            if is_over(&state) {
                return Ok(state);
            }
            if let Some(rank) = state.gone {
                return Err(FleetError::Gone { rank });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
