//! Which task a sample belongs to.

use super::entry::Entry;

/// The task of each sample, by id.
#[derive(Clone, Copy)]
pub(crate) struct Tasks<'a> {
    pub(crate) of: &'a [u16],
    pub(crate) n: usize,
}

impl Tasks<'_> {
    pub(super) fn of(&self, id: u32) -> usize {
        usize::from(self.of[id as usize])
    }

    /// The entries of each task, in the same order.
    pub(super) fn entries<const AXES: usize>(&self, entries: &[Entry<AXES>]) -> Vec<Vec<Entry<AXES>>> {
        let of_task = |places: Vec<u32>| places.into_iter().map(|place| entries[place as usize]).collect();
        self.places(entries).into_iter().map(of_task).collect()
    }

    /// The places of the entries of each task.
    pub(super) fn places<const AXES: usize>(&self, entries: &[Entry<AXES>]) -> Vec<Vec<u32>> {
        let mut places = vec![Vec::new(); self.n];
        for (place, entry) in (0..).zip(entries) {
            places[self.of(entry.id)].push(place);
        }
        places
    }
}
