//! The faults of a run, as they happen.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_probe::HeapCounters;
use plimsoll_train::SourceError;
use plimsoll_types::Phase;

use crate::list::{Kind, List};

/// The faults of a run, and where it stands.
pub(crate) struct Faults {
    list: Mutex<List>,
    pub(crate) is_validating: AtomicBool,
}

impl Faults {
    pub(crate) fn new(list: List) -> Self {
        Self { list: Mutex::new(list), is_validating: AtomicBool::new(false) }
    }

    pub(crate) fn list(&self) -> MutexGuard<'_, List> {
        // A thread that was made to panic has changed nothing by halves.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn on_read(&self, id: u64) -> Result<(), SourceError> {
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

    pub(crate) fn on_part(&self, n_samples: usize) {
        let mut list = self.list();
        list.parts += 1;
        list.readings = 0;
        if list.offset.is_some() {
            list.use_up(|it| *it == Kind::Oom);
        }
        list.exceed(Phase::Train);
        let at = list.parts;
        if list.take(at, |it| *it == Kind::Kill, 0).is_some() {
            list.await_checkpoint();
            kill_this_process();
        }
        let is_refusal = |it: &Kind| matches!(it, Kind::RefusedAllocation { samples, .. } if *samples <= n_samples);
        if let Some(Kind::RefusedAllocation { bytes, .. }) = list.take(at, is_refusal, 0) {
            let counters = HeapCounters::of_program();
            counters.set_limit(counters.current() + bytes);
        }
    }
}

/// Ends as by kill −9.
fn kill_this_process() {
    #[cfg(unix)]
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .expect("a process can end itself");
}
