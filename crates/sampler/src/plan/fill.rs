//! The fewest batches: longest first.

use super::batches::{Batches, Span};
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
}

impl<'a, R: CapacityRule<AXES>, const AXES: usize> Open<'a, R, AXES> {
    pub(super) fn new(fit: &'a Fit<R, AXES>, out: &'a mut Batches<AXES>) -> Self {
        let start = out.ids.len();
        Self { fit, out, start, longest: [0; AXES], cell: [0; AXES], capacity: 0 }
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
            self.out.ids.push(entry.id);
        }
        fits
    }

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

    /// Ends the batch, if it has a sample; the next one is empty.
    pub(super) fn close(&mut self) {
        let (start, end, n) = (self.start, self.out.ids.len(), self.len());
        if n > 0 {
            self.out.spans.push(Span {
                start: narrow(start),
                end: narrow(end),
                partial: n < self.capacity,
                rows: narrow(n),
                longest: self.longest,
                cell: self.cell,
            });
        }
        (self.start, self.longest, self.capacity) = (end, [0; AXES], 0);
    }

    /// Adds a sample to this batch, or else to the next.
    #[inline]
    pub(super) fn push(&mut self, entry: &Entry<AXES>) {
        if self.add(entry) {
            return;
        }
        self.close();
        if !self.add(entry) {
            self.add_alone(entry);
        }
    }

    /// Makes a batch of a sample for which the rule has no room, although it had for longer ones: a rule that breaks its
    /// word where nobody looked costs a report of a batch that is over budget, and not the run.
    fn add_alone(&mut self, entry: &Entry<AXES>) {
        (self.longest, self.cell, self.capacity) = (entry.lengths, self.fit.of(entry.lengths).0, 1);
        self.out.ids.push(entry.id);
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
    open.close();
    keep_last_partial(out);
}

/// A batch that the next sample did not fit into is as full as it gets; only the last one may wait for more.
pub(super) fn keep_last_partial<const AXES: usize>(out: &mut Batches<AXES>) {
    if let [earlier @ .., _] = &mut out.spans[..] {
        for span in earlier {
            span.partial = false;
        }
    }
}
