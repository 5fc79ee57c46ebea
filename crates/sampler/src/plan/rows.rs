//! The fewest rows: samples laid end to end.

use super::batches::{Batches, Span};
use super::entry::Entry;
use super::fit::Fit;
use super::narrow::narrow;
use crate::CapacityRule;

/// Rows by what is free in each, in a tournament: an inner node knows the most that is free below it.
struct Rows {
    free: Vec<u32>,
    n_leaves: usize,
}

/// Lays each sample, longest first, into the first row where it fits (first-fit decreasing); a row is as long as the
/// longest single sample that fits.
///
/// The rows are at most 11/9 of the fewest possible, plus 6/9: Dósa, Li, Han and Tuza, "Tight absolute bound for First
/// Fit Decreasing bin-packing", Theoretical Computer Science 510, 2013.
///
/// The entries have one axis.
pub(super) fn fewest_rows<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    fit: &Fit<R, AXES>,
    out: &mut Batches<AXES>,
) {
    let longest = entries.iter().map(|entry| entry.lengths[0]).max().unwrap_or(1);
    // A rule that breaks its word where nobody looked may have no room for a sample: its row is over budget.
    let mut rows = Rows::new(entries.len(), row_length(fit, longest).max(longest));
    let mut filled: Vec<Vec<&Entry<AXES>>> = Vec::new();
    for entry in entries.iter().rev() {
        let row = rows.first_with(entry.lengths[0]);
        if row == filled.len() {
            filled.push(Vec::new());
        }
        filled[row].push(entry);
        let full = filled[row].len() >= fit.most_samples as usize;
        rows.take(row, if full { rows.free(row) } else { entry.lengths[0] });
    }
    let n_rows = filled.len();
    for (index, row) in filled.iter().enumerate() {
        let start = narrow(out.ids.len());
        out.ids.extend(row.iter().map(|entry| entry.id));
        let total = [row.iter().map(|entry| entry.lengths[0]).sum(); AXES];
        let partial = index + 1 == n_rows;
        let (cell, _) = fit.of(total);
        out.spans.push(Span { start, end: narrow(out.ids.len()), partial, rows: 1, longest: total, cell });
    }
}

/// The longest row that fits; the rule is asked for no more than twice that, or the length of a sample that fits.
pub(super) fn row_length<R: CapacityRule<AXES>, const AXES: usize>(fit: &Fit<R, AXES>, sample: u32) -> u32 {
    let mut most = sample;
    while most < u32::MAX && fit.capacity([most; AXES]) > 0 {
        most = most.saturating_mul(2);
    }
    fit.limit([most; AXES], 0)
}

impl Rows {
    fn new(n_rows: usize, length: u32) -> Self {
        let n_leaves = n_rows.next_power_of_two();
        Self { free: vec![length; 2 * n_leaves], n_leaves }
    }

    fn free(&self, row: usize) -> u32 {
        self.free[self.n_leaves + row]
    }

    /// The first row with so much free; there are as many rows as samples, so one is always empty.
    fn first_with(&self, length: u32) -> usize {
        let mut node = 1;
        while node < self.n_leaves {
            node *= 2;
            if self.free[node] < length {
                node += 1;
            }
        }
        node - self.n_leaves
    }

    fn take(&mut self, row: usize, length: u32) {
        let mut node = self.n_leaves + row;
        self.free[node] -= length;
        while node > 1 {
            node /= 2;
            self.free[node] = self.free[2 * node].max(self.free[2 * node + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Lattice, PaddedBudget};

    /// The samples of each row, by the definition of first fit.
    fn by_definition(lengths: &[u32], limit: u32) -> Vec<Vec<u32>> {
        let mut rows: Vec<Vec<u32>> = Vec::new();
        for length in lengths.iter().rev() {
            match rows.iter_mut().find(|row| row.iter().sum::<u32>() + length <= limit) {
                Some(row) => row.push(*length),
                None => rows.push(vec![*length]),
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn rows_are_those_of_first_fit(mut lengths in prop::collection::vec(1u32..100, 1..200), limit in 100u32..400) {
            lengths.sort_unstable();
            let entries: Vec<_> = (0..).zip(&lengths).map(|(id, l)| Entry { lengths: [*l], id }).collect();
            let rule = PaddedBudget([u64::from(limit)]);
            let fit = Fit { rule, lattice: Lattice::default(), most_samples: u32::MAX, multiple_of: 1 };
            let mut out = Batches::default();
            fewest_rows(&entries, &fit, &mut out);
            let rows: Vec<Vec<u32>> =
                out.iter().map(|row| row.ids.iter().map(|id| lengths[*id as usize]).collect()).collect();
            prop_assert!(out.iter().all(|row| row.rows == 1 && row.longest[0] <= limit));
            prop_assert_eq!(rows, by_definition(&lengths, limit));
        }
    }

    #[test]
    fn a_row_holds_no_more_samples_than_allowed() {
        let entries = [1, 1, 1, 1, 1].map(|length| Entry { lengths: [length], id: 0 });
        let fit = Fit { rule: PaddedBudget([100]), lattice: Lattice::default(), most_samples: 2, multiple_of: 1 };
        let mut out = Batches::default();
        fewest_rows(&entries, &fit, &mut out);
        assert_eq!(out.iter().map(|row| row.ids.len()).collect::<Vec<_>>(), [2, 2, 1]);
    }
}
