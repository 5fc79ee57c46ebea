//! Ctrl-C and its relatives.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_train::StopFlag;

#[cfg(unix)]
use crate::exit::SIGNALLED;

/// What is to be done before the process ends at a signal at once; none where it is to end after a step.
static AT_ONCE: Mutex<Option<Undoing>> = Mutex::new(None);

type Undoing = Box<dyn FnOnce() + Send>;

/// Lets signals end the process at once until it is dropped.
#[must_use]
pub(crate) struct AtOnce(());

/// Lets the first signal end the process at once, after this was done: where there is no step to wait for, and one trial may
/// take minutes.
pub(crate) fn at_once(undo: impl FnOnce() + Send + 'static) -> AtOnce {
    *undoing() = Some(Box::new(undo));
    AtOnce(())
}

/// Does something that no signal cuts short, such as writing files that belong together.
pub(crate) fn uncut<T>(work: impl FnOnce() -> T) -> T {
    let _held = undoing();
    work()
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        *undoing() = None;
    }
}

fn undoing() -> MutexGuard<'static, Option<Undoing>> {
    AT_ONCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the flag at the first SIGINT or SIGTERM, and ends the process at the second.
#[cfg(unix)]
pub(crate) fn watch(stop: &StopFlag) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let mut undoing = undoing();
            if let Some(undo) = undoing.take() {
                crate::say::show("\ninterrupted\n");
                undo();
                signal_hook::low_level::exit(SIGNALLED + signal);
            }
            drop(undoing);
            if stop.set(signal) {
                crate::say::show("\nending after this step; a second signal ends at once\n");
                continue;
            }
            // Files are written under temporary names, so ending here damages none; nothing of the process is run any
            // more, because its other threads are in the middle of their work.
            signal_hook::low_level::exit(SIGNALLED + signal);
        }
    });
    Ok(())
}

/// Other systems end the process at the first signal; the last checkpoint remains.
#[cfg(not(unix))]
pub(crate) fn watch(_stop: &StopFlag) -> anyhow::Result<()> {
    Ok(())
}
