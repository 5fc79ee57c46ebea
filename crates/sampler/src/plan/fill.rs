//! The fewest batches: longest first.

use super::batches::{Batches, Span, longest};
use super::entry::Entry;
use super::fit::Fit;
use super::narrow::narrow;
use crate::CapacityRule;

/// The batch that is being filled; its ids are the last ones.
pub(super) struct Open<'a, R, const AXES: usize> {
    fit: &'a Fit<R, AXES>,
    out: &'a mut Batches<AXES>,
    start: usize,
    longest: [u32; AXES],
    cell: [u32; AXES],
    capacity: usize,
    /// The batch's samples, where a batch has to be a multiple and may give some to the next.
    held: Vec<Entry<AXES>>,
}

impl<'a, R: CapacityRule<AXES>, const AXES: usize> Open<'a, R, AXES> {
    pub(super) fn new(fit: &'a Fit<R, AXES>, out: &'a mut Batches<AXES>) -> Self {
        let start = out.ids.len();
        Self { fit, out, start, longest: [0; AXES], cell: [0; AXES], capacity: 0, held: Vec::new() }
    }

    /// Samples in the batch so far.
    pub(super) fn len(&self) -> usize {
        self.out.ids.len() - self.start
    }

    /// Adds a sample if the batch still fits with it.
    #[inline]
    pub(super) fn add(&mut self, entry: &Entry<AXES>) -> bool {
        let shorter = entry.lengths.iter().zip(&self.longest).all(|(length, longest)| length <= longest);
        let fits = if shorter { self.len() < self.capacity } else { self.grow(entry) };
        if fits {
            self.take(entry);
        }
        fits
    }

    #[inline]
    fn take(&mut self, entry: &Entry<AXES>) {
        self.out.ids.push(entry.id);
        if self.fit.multiple_of > 1 {
            self.held.push(*entry);
        }
    }

    /// Rare where samples come longest first, and kept out of the way of the others.
    #[inline(never)]
    fn grow(&mut self, entry: &Entry<AXES>) -> bool {
        let mut longest = self.longest;
        for (longest, length) in longest.iter_mut().zip(entry.lengths) {
            *longest = length.max(*longest);
        }
        let (cell, capacity) = self.fit.of(longest);
        let fits = self.len() < capacity as usize;
        if fits {
            (self.longest, self.cell, self.capacity) = (longest, cell, capacity as usize);
        }
        fits
    }

    /// Ends the batch, if it has a sample; the next one begins with what is beyond a multiple.
    #[inline(never)]
    pub(super) fn close(&mut self) {
        let n_beyond = self.len() % self.fit.multiple_of as usize;
        if n_beyond == 0 || n_beyond == self.len() {
            return self.end();
        }
        let beyond = self.held.split_off(self.held.len() - n_beyond);
        self.out.ids.truncate(self.out.ids.len() - n_beyond);
        let whole = std::mem::take(&mut self.held);
        self.measure(&whole);
        self.end();
        self.out.ids.extend(beyond.iter().map(|entry| entry.id));
        self.measure(&beyond);
        self.held = beyond;
    }

    /// Ends the last batch, and what is beyond a multiple in one of its own.
    pub(super) fn finish(&mut self) {
        self.close();
        self.end();
        keep_last_partial(self.out);
    }

    fn measure(&mut self, entries: &[Entry<AXES>]) {
        self.longest = longest(entries.iter().map(|entry| entry.lengths));
        let (cell, capacity) = self.fit.of(self.longest);
        (self.cell, self.capacity) = (cell, capacity as usize);
    }

    /// Makes a batch of all that is here, if there is anything; the next one is empty.
    fn end(&mut self) {
        let (start, end, n) = (self.start, self.out.ids.len(), self.len());
        if n > 0 {
            self.out.spans.push(Span {
                start: narrow(start),
                end: narrow(end),
                partial: n < self.capacity,
                longest: self.longest,
                cell: self.cell,
            });
        }
        (self.start, self.longest, self.capacity) = (end, [0; AXES], 0);
        self.held.clear();
    }

    /// Adds a sample to this batch, or else to the next.
    #[inline]
    pub(super) fn push(&mut self, entry: &Entry<AXES>) {
        if self.add(entry) {
            return;
        }
        self.close();
        if self.add(entry) {
            return;
        }
        // Where the rule has no room for a multiple, it may have none beside what was beyond one.
        self.end();
        if !self.add(entry) {
            self.add_alone(entry);
        }
    }

    /// Makes a batch of a sample for which the rule has no room, although it had for longer ones: a rule that breaks its
    /// word where nobody looked costs a report of a batch that is over budget, and not the run.
    fn add_alone(&mut self, entry: &Entry<AXES>) {
        (self.longest, self.cell, self.capacity) = (entry.lengths, self.fit.of(entry.lengths).0, 1);
        self.take(entry);
    }
}

/// Fills batches from the last entry to the first, which is the longest to the shortest.
///
/// On one axis in sorted order, no other way needs fewer batches: the batch of the longest sample holds at most
/// `capacity(longest)`, and taking the longest remaining ones for the rest leaves an element-wise smaller problem.
///
/// # Sources
///
/// The rule of full batches, longest processing time first: Ikura and Gimple, "Efficient scheduling algorithms for a
/// single batch processing machine", Operations Research Letters 5, 1986; here with a capacity that depends on length.
pub(super) fn longest_first<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    fit: &Fit<R, AXES>,
    out: &mut Batches<AXES>,
) {
    let mut open = Open::new(fit, out);
    for entry in entries.iter().rev() {
        open.push(entry);
    }
    open.finish();
}

/// A batch that the next sample did not fit into is as full as it gets; only the last one may wait for more.
pub(super) fn keep_last_partial<const AXES: usize>(out: &mut Batches<AXES>) {
    if let [earlier @ .., _] = &mut out.spans[..] {
        for span in earlier {
            span.partial = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lattice, PaddedBudget, PlanConfig};

    /// A blur puts a longer sample behind shorter ones, of which one is beyond a multiple when the batch ends before it.
    #[test]
    fn what_is_beyond_a_multiple_takes_no_sample_that_has_no_room() {
        let lattice = Lattice::try_new([vec![16, 40]]).unwrap();
        let mut fit = Fit::new(PaddedBudget([80]), &PlanConfig { lattice, multiple_of: 2, ..PlanConfig::default() });
        fit.follow(PaddedBudget([64]));
        let entries = [17, 10, 10, 10].map(|length| Entry { lengths: [length], id: length });
        let mut out = Batches::default();
        longest_first(&entries, &fit, &mut out);
        let batches: Vec<_> = out.iter().map(|batch| (batch.ids.len(), batch.cell)).collect();
        assert_eq!(batches, [(2, [16]), (1, [16]), (1, [40])]);
    }
}
