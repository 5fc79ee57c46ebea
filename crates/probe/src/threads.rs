//! What part a thread has in what is measured.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Whose memory a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The work that is measured.
    Own,
    /// Work beside it.
    Beside,
    /// One of the workers among whom the work that is measured is divided.
    Worker,
}

thread_local! {
    static PART: Cell<Part> = const { Cell::new(Part::Own) };
}

static WORKERS: AtomicUsize = AtomicUsize::new(0);

/// Counts what this thread takes and returns from now on beside the work that is measured: for a thread that reads ahead
/// while a step runs.
///
/// What such threads hold goes up and down as they please. In a reading it stands with the most that they held lately, the
/// same from one [`reset_peak`](crate::Probe::reset_peak) to the next, so that it is never taken for a need of what runs
/// between the two. What is held against the line is what is held.
pub fn count_beside() {
    set(Part::Beside);
}

/// Counts this thread from now on among the workers of a pool, between which the work that is measured is divided.
///
/// Each takes scratch memory for its share. How many do so at the same moment is another matter each time; so a peak holds,
/// for every one of them, the most that any has taken since the last [`reset_peak`](crate::Probe::reset_peak): what it would
/// be if all did. The thread that resets the peak is none of them.
///
/// Whether work is divided at all depends on its size: where it is not, one thread takes such memory once. What all others take
/// where it is stands in [`MemoryReading::packed`](plimsoll_types::MemoryReading::packed), since no smaller piece of work need
/// have shown it.
///
/// What a worker takes and another thread returns counts as its scratch until the peak is reset, so a pool that reads data
/// wants to be another one, whose threads [count beside](count_beside). A worker counts as one after its end too. All of this
/// is about the one heap that a program counts.
pub fn count_as_worker() {
    set(Part::Worker);
}

/// Counts this thread among those that do the work that is measured.
pub(crate) fn count_as_own() {
    set(Part::Own);
}

fn set(part: Part) {
    match (PART.replace(part), part) {
        (Part::Own | Part::Beside, Part::Worker) => _ = WORKERS.fetch_add(1, SeqCst),
        (Part::Worker, Part::Own | Part::Beside) => _ = WORKERS.fetch_sub(1, SeqCst),
        _ => (),
    }
}

pub(crate) fn part() -> Part {
    PART.try_with(Cell::get).unwrap_or(Part::Own)
}

/// Returns how many workers there are.
pub(crate) fn n_workers() -> usize {
    WORKERS.load(SeqCst)
}

/// Returns how many workers there are beside the first.
pub(crate) fn others() -> usize {
    n_workers().saturating_sub(1)
}

/// Whoever counts workers in a test holds this, since they are those of the whole program.
#[cfg(test)]
pub(crate) static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
