//! Samples that are as good as each other, and which of them goes first.
//!
//! A plan says which kinds of samples share a batch; which samples of a kind these are is settled by a queue for each
//! kind, in which the first batch in time takes the first samples.
//! So what was taken of a window is a number for each kind, whatever rules it was planned by and in whatever order.

use super::compact::{BitReader, BitWriter, width};
use super::entry::Entry;
use super::narrow::narrow;

/// The samples of a window, in a queue for each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queues {
    /// The queues one after the other.
    ids: Vec<u32>,
    /// Where each begins, and where the last one ends.
    starts: Vec<u32>,
    /// The first of each that is not taken.
    next: Vec<u32>,
}

impl Queues {
    /// The samples in their order, of the kinds that their entries are named by, and nothing taken; in the room of other queues.
    pub(super) fn new<const AXES: usize>(samples: &[u32], kinds: &[Entry<AXES>], n_kinds: usize, room: Self) -> Self {
        let Self { mut ids, mut starts, mut next } = room;
        starts.clear();
        starts.resize(n_kinds + 1, 0);
        for Entry { id: kind, .. } in kinds {
            starts[*kind as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        next.clear();
        next.extend_from_slice(&starts[..n_kinds]);
        // What is not overwritten is not there.
        ids.resize(samples.len(), 0);
        for (id, Entry { id: kind, .. }) in samples.iter().zip(kinds) {
            let place = &mut next[*kind as usize];
            ids[*place as usize] = *id;
            *place += 1;
        }
        next.copy_from_slice(&starts[..n_kinds]);
        Self { ids, starts, next }
    }

    /// Takes the first sample of a kind.
    pub(super) fn pop(&mut self, kind: u32) -> u32 {
        let next = &mut self.next[kind as usize];
        *next += 1;
        self.ids[*next as usize - 1]
    }

    /// How many samples of each kind are not taken.
    pub(super) fn n_waiting(&self) -> impl Iterator<Item = (u32, usize)> {
        let ends = self.starts[1..].iter().zip(&self.next);
        (0..).zip(ends.map(|(end, next)| (end - next) as usize))
    }

    /// Says whether the next sample of a kind is not taken; to be asked for all samples in their order.
    pub(super) fn waits(&self) -> impl FnMut(u32) -> bool + use<> {
        let mut n_passed: Vec<u32> = self.next.iter().zip(&self.starts).map(|(next, start)| next - start).collect();
        move |kind| {
            let n = &mut n_passed[kind as usize];
            let passes = *n > 0;
            *n -= u32::from(passes);
            !passes
        }
    }

    /// Writes how many of each kind are taken.
    pub(super) fn write(&self, bits: &mut BitWriter) {
        for (ends, next) in self.starts.windows(2).zip(&self.next) {
            bits.push(u64::from(next - ends[0]), width(u64::from(ends[1] - ends[0])));
        }
    }

    /// Takes as many of each kind as were written; `None` when there are not so many.
    pub(super) fn read(mut self, bits: &mut BitReader<'_>) -> Option<Self> {
        for (ends, next) in self.starts.windows(2).zip(&mut self.next) {
            let n = bits.next(width(u64::from(ends[1] - ends[0])))?;
            *next = narrow(usize::try_from(n).ok()?).checked_add(ends[0]).filter(|next| *next <= ends[1])?;
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_a_number_for_each_kind() {
        let samples = [5, 8, 3, 2, 11, 6];
        let kinds = samples.map(|id| Entry { lengths: [1], id: id % 3 });
        let fresh = Queues::new(&samples, &kinds, 3, Queues::default());
        let mut queues = fresh.clone();
        assert_eq!([2, 0, 2, 2].map(|kind| queues.pop(kind)), [5, 3, 8, 2]);
        let mut waits = queues.waits();
        assert_eq!(kinds.map(|kind| waits(kind.id)), [false, false, false, false, true, true]);
        assert!(queues.n_waiting().eq([(0, 1), (1, 0), (2, 1)]));
        let mut writer = BitWriter::default();
        queues.write(&mut writer);
        assert_eq!(fresh.clone().read(&mut writer.finish().reader()), Some(queues));
        let mut wrong = BitWriter::default();
        wrong.push(3, 2);
        assert_eq!(fresh.read(&mut wrong.finish().reader()), None);
    }
}
