//! One test at a time, for tests that share what is measured: the heap of the process, or the allocator of a device.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Says that no other test runs beside this one.
pub(crate) struct Alone(());

/// Waits until no other test runs, and lets none run until the thread of this one is gone, with what it keeps for its kernels.
///
/// To be called before anything else: of what a thread keeps, the last that was made is dropped first.
pub(crate) fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    thread_local! { static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) } }
    // With one thread for all tests, that thread has it already.
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_with(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    });
    Alone(())
}
