//! Faults that are injected into a run, for the binary `chaos` of plimsoll-bench.
//!
//! The variable `PLIMSOLL_FAULTS` lists them in JSON; without it nothing happens.
//! A fault that has happened is noted in a file, so that a process that goes on with the run does not repeat it.

mod list;
mod probe;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_probe::HeapCounters;
use plimsoll_train::{FitConfig, Hooked, Hooks, Job, Outcome, Shell, SourceError, TrainError};

use self::list::{Kind, List};
use self::probe::FaultyProbe;

/// Trains as [`plimsoll_train::fit`] does, with the faults that the environment lists.
pub(crate) fn fit<'a, J: Job>(job: &'a J, config: &'a FitConfig, shell: Shell<'a>) -> Result<Outcome, TrainError> {
    let Some(list) = List::from_environment() else { return plimsoll_train::fit(job, config, shell) };
    let faults = Arc::new(Faults { list: Mutex::new(list), is_validating: AtomicBool::new(false) });
    let probe = Box::new(FaultyProbe::new(shell.probe, Arc::clone(&faults)));
    // One run in a process: nothing is lost that would be used again.
    let hooked = Box::leak(Box::new(Hooked { job, hooks: faults }));
    plimsoll_train::fit(hooked, config, Shell { probe, ..shell })
}

/// The faults of a process, and where the run stands.
struct Faults {
    list: Mutex<List>,
    is_validating: AtomicBool,
}

impl Faults {
    fn list(&self) -> MutexGuard<'_, List> {
        // A thread that was made to panic has changed nothing by halves.
        self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Hooks for Faults {
    fn on_read(&self, _epoch: u64, id: u64) -> Result<(), SourceError> {
        let due = {
            let mut list = self.list();
            list.reads += 1;
            let at = list.reads;
            list.take(at, |it| matches!(it, Kind::ReadError | Kind::Unreadable | Kind::WorkerPanic), id)
        };
        match due {
            // The lock is free again: only this thread ends.
            Some(Kind::WorkerPanic) => panic!("injected while sample {id} was read"),
            Some(_) => Err(SourceError { sample_id: id, reason: "injected".to_owned() }),
            None => Ok(()),
        }
    }

    fn on_part(&self, n_samples: usize) {
        let mut list = self.list();
        list.parts += 1;
        list.readings = 0;
        // One sample alone cannot be divided: it waits for a larger part.
        if 1 < n_samples && list.offset.is_some() {
            list.use_up(|it| *it == Kind::Oom);
        } else {
            list.offset = None;
        }
        let at = list.parts;
        let is_refusal = |it: &Kind| matches!(it, Kind::RefusedAllocation { samples, .. } if *samples <= n_samples);
        if let Some(Kind::RefusedAllocation { bytes, .. }) = list.take(at, is_refusal, 0) {
            let counters = HeapCounters::of_program();
            counters.set_limit(counters.current() + bytes);
        }
    }

    fn on_validation(&self, is_running: bool) {
        self.is_validating.store(is_running, SeqCst);
    }
}
