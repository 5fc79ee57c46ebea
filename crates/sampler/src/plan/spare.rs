//! Room that is used again.

use super::entry::Entry;
use super::queues::Queues;

/// Room that planning a window takes, and the next one again; what it holds means nothing, so that all such rooms are equal.
///
/// Without it, page faults were a seventh of the time in which two axes were planned.
#[derive(Clone, Debug, Default)]
pub(super) struct Spare<const AXES: usize> {
    entries: Vec<Entry<AXES>>,
    /// For the samples that are drawn.
    pub(super) ids: Vec<u32>,
    pub(super) queues: Queues,
    /// For a number for each entry.
    pub(super) numbers: Vec<u32>,
}

impl<const AXES: usize> PartialEq for Spare<AXES> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<const AXES: usize> Spare<AXES> {
    /// Room for so many entries.
    pub(super) fn of(&mut self, n: usize) -> &mut [Entry<AXES>] {
        if self.entries.len() < n {
            self.entries.resize(n, Entry::NONE);
        }
        &mut self.entries[..n]
    }
}
