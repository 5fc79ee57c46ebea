//! The least total time.

use super::batches::Batches;
use super::entry::Entry;
use super::fill::{Open, keep_last_partial};
use super::fit::Fit;
use crate::CapacityRule;

/// What the batches that end at each entry cost.
struct Costs {
    batch_overhead: f64,
    /// Per entry: the time of one sample that is padded to the longest up to here, and how many of them fit.
    samples: Vec<(f64, usize)>,
    /// Per number of entries: their least time.
    least: Vec<f64>,
}

/// A batch that begins at `start` is the best of all for those that end at `from` or later.
#[derive(Clone, Copy)]
struct Candidate {
    start: usize,
    from: usize,
}

/// Cuts entries of one axis, in ascending order of their cells, into the batches that take the least time: the sum of
/// each batch's overhead and of its samples' times at the padded length.
///
/// An optimal batch is contiguous in sorted order (exchange), and the cost is Monge: of two beginnings, the earlier one
/// is better up to some end and the later one from there on, also where the earlier one has become too large to fit.
/// So the candidates stand in a queue, each with the end from which it is the best, found by binary search: `n log n`.
/// (A hull of lines would be wrong, since a line that it dropped may be the best again once its rival no longer fits.)
///
/// # Sources
///
/// Galil and Park, "Dynamic programming with convexity, concavity and sparsity", Theoretical Computer Science 92, 1992.
pub(super) fn least_time<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    batch_overhead: f64,
    fit: &Fit<R, AXES>,
    out: &mut Batches<AXES>,
) {
    let starts = starts(entries.len(), costs(entries, batch_overhead, fit));
    let mut open = Open::new(fit, out);
    let mut end = entries.len();
    while end > 0 {
        let start = starts[end];
        for entry in entries[start..end].iter().rev() {
            open.push(entry);
        }
        open.close();
        end = start;
    }
    keep_last_partial(out);
}

fn costs<R: CapacityRule<AXES>, const AXES: usize>(
    entries: &[Entry<AXES>],
    batch_overhead: f64,
    fit: &Fit<R, AXES>,
) -> Costs {
    let mut longest = 0;
    let mut at_longest = (0.0, 0);
    let sample = |entry: &Entry<AXES>| {
        if entry.lengths[0] > longest {
            longest = entry.lengths[0];
            let (cell, capacity) = fit.of(entry.lengths);
            at_longest = (fit.rule.sample_time(cell), capacity as usize);
        }
        at_longest
    };
    Costs { batch_overhead, samples: entries.iter().map(sample).collect(), least: vec![0.0] }
}

/// For each number of entries, where the last batch of the best division of so many begins.
fn starts(n: usize, mut costs: Costs) -> Vec<usize> {
    let mut queue: Vec<Candidate> = Vec::new();
    let mut first = 0;
    let mut starts = vec![0];
    for end in 1..=n {
        enter(&mut queue, end, n, &costs);
        first = first.min(queue.len() - 1);
        while queue.get(first + 1).is_some_and(|next| next.from <= end) {
            first += 1;
        }
        let start = queue[first].start;
        costs.least.push(costs.of(start, end));
        starts.push(start);
    }
    starts
}

/// Puts the beginning at the last entry into the queue.
fn enter(queue: &mut Vec<Candidate>, end: usize, n: usize, costs: &Costs) {
    let start = end - 1;
    let better = |than: Candidate, at: usize| costs.of(start, at) <= costs.of(than.start, at);
    while queue.pop_if(|last| last.from >= end && better(*last, last.from)).is_some() {}
    let Some(last) = queue.last().copied() else {
        queue.push(Candidate { start, from: end });
        return;
    };
    let (mut worse, mut from) = (last.from.max(end) - 1, n + 1);
    while from - worse > 1 {
        let middle = worse + (from - worse) / 2;
        if better(last, middle) { from = middle } else { worse = middle }
    }
    if from <= n {
        queue.push(Candidate { start, from });
    }
}

impl Costs {
    /// The least time of the first `end` entries when the last batch begins at `start`.
    fn of(&self, start: usize, end: usize) -> f64 {
        let (sample, capacity) = self.samples[end - 1];
        let size = end - start;
        if size > capacity {
            return f64::INFINITY;
        }
        self.least[start] + self.batch_overhead + size as f64 * sample
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{PaddedBudget, PlanConfig};

    /// The least time by trying every beginning.
    fn by_trial(n: usize, mut costs: Costs) -> f64 {
        for end in 1..=n {
            let best = (0..end).map(|start| costs.of(start, end)).fold(f64::INFINITY, f64::min);
            costs.least.push(best);
        }
        costs.least[n]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_division_takes_less_time(
            mut lengths in prop::collection::vec(1u32..60, 1..60), budget in 60u64..400, overhead in 0u32..200
        ) {
            lengths.sort_unstable();
            let entries: Vec<_> = (0..).zip(&lengths).map(|(id, l)| Entry { lengths: [*l], id }).collect();
            let fit = Fit::new(PaddedBudget([budget]), &PlanConfig::default());
            let mut out = Batches::default();
            least_time(&entries, f64::from(overhead), &fit, &mut out);
            let time: f64 = out.iter().map(|b| f64::from(overhead) + b.ids.len() as f64 * f64::from(b.longest[0])).sum();
            let least = by_trial(entries.len(), costs(&entries, f64::from(overhead), &fit));
            prop_assert!((time - least).abs() < 1e-9, "{time}, not {least}");
            prop_assert_eq!(out.n_samples(), lengths.len());
        }
    }
}
