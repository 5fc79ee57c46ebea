//! Putting samples of several axes into a line, so that neighbours are alike on all of them.

use std::collections::BTreeSet;

use super::blur::Blur;
use super::entry::{Entry, sort};
use super::knots::{KEPT_WITHOUT, Knots};
use super::line::{Line, n_alike};
use super::narrow::narrow;
use crate::hash::Rng;

/// How much of a band's batches is padded on the next axis, in units of one batch per band: half of the logarithm of
/// the ratio between long and short samples, which is 20 in chats.
const SPREAD: f64 = 1.5;

/// The most groups of lengths that a window is told apart by when bands are chosen.
const N_GROUPS: usize = 256;

/// The axes from the one with the fewest different padded lengths to the one with the most.
pub(super) fn by_variety<const AXES: usize>(cells: &(impl Iterator<Item = [u32; AXES]> + Clone)) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..AXES).collect();
    if AXES > 1 {
        axes.sort_by_cached_key(|axis| cells.clone().map(|lengths| lengths[*axis]).collect::<BTreeSet<_>>().len());
    }
    axes
}

/// Samples of nearly one length on the axis that is divided.
#[derive(Clone, Copy)]
struct Group {
    end: usize,
    longest: f64,
    sum: f64,
}

/// What is done with sorted entries, from the first to the last.
enum Step {
    /// The next entries, so many of them, are a band on the last axis, in ascending order.
    Band(usize),
    /// So many of the last ones are to be reversed.
    Turn(usize),
}

impl<const AXES: usize> Line<'_, AXES> {
    /// Sorts the entries, by their cells where there are edges, into bands on the first axis, each band on the next
    /// axis, and so on; every other band runs backwards, so that a batch across two bands is padded little.
    ///
    /// On the last axis, neighbours are mixed if need be; returns the greatest share of a batch's pairs that meet again
    /// when their samples are in one window again.
    pub(super) fn arrange(&self, entries: &mut [Entry<AXES>], spare: &mut [Entry<AXES>], rng: &mut Rng) -> f64 {
        let mut steps = Vec::new();
        self.sort_on(self.axes, (entries, spare), false, &mut steps);
        let sizes = steps.iter().filter_map(|step| if let Step::Band(size) = step { Some(*size) } else { None });
        let finest = self.axes.last().copied().unwrap_or(0);
        let (mut blur, reachable) = if self.most_kept < KEPT_WITHOUT {
            Blur::new(Knots::new(entries, sizes, self, finest), self)
        } else {
            (None, 1.0)
        };
        let mut end = 0;
        for step in steps {
            match step {
                Step::Band(size) => {
                    end += size;
                    if let Some(blur) = &mut blur {
                        blur.mix(&mut entries[end - size..end], rng);
                    }
                }
                Step::Turn(size) => entries[end - size..end].reverse(),
            }
        }
        reachable
    }

    /// Sorts by the edge that a length is padded to, or by the length where there are no edges; says whether the entries are in
    /// the spare room then.
    fn sort(&self, axis: usize, entries: &mut [Entry<AXES>], spare: &mut [Entry<AXES>]) -> bool {
        if entries.is_sorted_by_key(|entry| entry.lengths[axis]) {
            return false;
        }
        let n_edges = self.lattice.n_edges(axis);
        if n_edges > 0 {
            return sort(entries, spare, narrow(n_edges), |entry| narrow(self.lattice.rank(axis, entry.lengths[axis])));
        }
        let longest = entries.iter().map(|entry| entry.lengths[axis]).max().unwrap_or(0);
        sort(entries, spare, longest, |entry| entry.lengths[axis])
    }

    /// Sorts entries into bands, in their own room or in the spare one, and says what is still to be done.
    fn sort_on(
        &self,
        axes: &[usize],
        (entries, spare): (&mut [Entry<AXES>], &mut [Entry<AXES>]),
        into_spare: bool,
        steps: &mut Vec<Step>,
    ) {
        let [first, finer @ ..] = axes else { return };
        let is_in_spare = self.sort(*first, entries, spare);
        let (mut from, mut to) = if is_in_spare { (spare, entries) } else { (entries, spare) };
        let moves = is_in_spare != into_spare;
        if finer.is_empty() {
            if moves {
                to.copy_from_slice(from);
            }
            steps.push(Step::Band(from.len()));
            return;
        }
        let groups = groups(from, |entry| self.lattice.padded(*first, entry.lengths[*first]));
        for (index, size) in bands(&groups, finer.len(), self.per_batch).into_iter().enumerate() {
            let ((band, after), (room, more)) = (from.split_at_mut(size), to.split_at_mut(size));
            self.sort_on(finer, (band, room), moves, steps);
            if index % 2 == 1 {
                steps.push(Step::Turn(size));
            }
            (from, to) = (after, more);
        }
    }
}

/// The sizes of the bands with the least padding, by dynamic programming over the groups.
///
/// A band of `m` samples pads `m − Σ length / longest` samples on its own axis, and on each of the `d` axes left about
/// `SPREAD · m · (per_batch / m)^(1/d)`.
fn bands(groups: &[Group], n_left: usize, per_batch: f64) -> Vec<usize> {
    let mut best = vec![(0.0, 0)];
    for upper in 0..groups.len() {
        let (mut sum, mut least) = (0.0, (f64::INFINITY, 0));
        for lower in (0..=upper).rev() {
            let start = if lower == 0 { 0 } else { groups[lower - 1].end };
            sum += groups[lower].sum;
            let m = (groups[upper].end - start) as f64;
            let across = m - sum / groups[upper].longest;
            let along = SPREAD * n_left as f64 * m * (per_batch / m).min(1.0).powf(1.0 / n_left as f64);
            let total = best[lower].0 + across + along;
            if total < least.0 {
                least = (total, lower);
            }
        }
        best.push(least);
    }
    let mut sizes = Vec::new();
    let mut upper = groups.len();
    while upper > 0 {
        let lower = best[upper].1;
        let start = if lower == 0 { 0 } else { groups[lower - 1].end };
        sizes.push(groups[upper - 1].end - start);
        upper = lower;
    }
    sizes.reverse();
    sizes
}

/// Divides sorted entries where the padded length changes, but not more finely than the number of groups allows.
fn groups<const AXES: usize>(entries: &[Entry<AXES>], padded: impl Fn(&Entry<AXES>) -> u32) -> Vec<Group> {
    let least = entries.len() / N_GROUPS;
    let mut groups: Vec<Group> = Vec::new();
    let mut start = 0;
    let mut left = entries;
    while let Some(first) = left.first().map(&padded) {
        let (run, after) = left.split_at(n_alike(left, |entry| padded(entry) == first));
        left = after;
        let length = f64::from(first);
        let sum = length * run.len() as f64;
        match groups.last_mut() {
            Some(group) if group.end - start < least => {
                *group = Group { end: group.end + run.len(), longest: length, sum: group.sum + sum };
            }
            other => {
                start = other.map_or(0, |group| group.end);
                groups.push(Group { end: start + run.len(), longest: length, sum });
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Use;
    use crate::{CapacityRule, Lattice, PaddedBudget};

    fn arranged(lengths: &[[u32; 2]], per_batch: f64, edges: [Vec<u32>; 2]) -> Vec<[u32; 2]> {
        let mut entries: Vec<_> = (0..).zip(lengths).map(|(id, l)| Entry { lengths: *l, id }).collect();
        let lattice = Lattice::try_new(edges).unwrap();
        let capacity = |padded| PaddedBudget([100, 1000]).capacity(padded);
        let line = Line {
            axes: &[0, 1],
            per_batch,
            capacity: &capacity,
            lattice: &lattice,
            most_kept: 1.0,
            window_share: 1.0,
        };
        let mut spare = entries.clone();
        line.arrange(&mut entries, &mut spare, &mut Rng::new(Use::Batches, 0, 0, 0));
        entries.into_iter().map(|entry| entry.lengths).collect()
    }

    #[test]
    fn bands_run_to_and_fro() {
        let lengths = [[1, 30], [4, 10], [1, 10], [4, 30], [1, 20], [4, 20]];
        assert_eq!(arranged(&lengths, 1.0, [vec![], vec![]]), [[1, 10], [1, 20], [1, 30], [4, 30], [4, 20], [4, 10]]);
    }

    #[test]
    fn lengths_that_differ_little_share_a_band() {
        let lengths = [[100, 30], [101, 10], [102, 20]];
        assert_eq!(arranged(&lengths, 1.0, [vec![], vec![]]), [[101, 10], [102, 20], [100, 30]]);
    }

    #[test]
    fn samples_of_one_cell_stay_as_they_were_drawn() {
        let lengths = [[3, 30], [1, 14], [4, 12], [2, 20], [1, 10]];
        let edges = [vec![2, 4], vec![15, 30]];
        assert_eq!(arranged(&lengths, 1.0, edges), [[1, 14], [1, 10], [2, 20], [3, 30], [4, 12]]);
        assert_eq!(arranged(&lengths, 1.0, [vec![4], vec![30]]), lengths);
    }

    #[test]
    fn every_entry_stays() {
        let lengths: Vec<[u32; 2]> = (0..5000u32).map(|i| [i * 7919 % 613 + 1, i * 104_729 % 997 + 1]).collect();
        let (mut before, mut after) = (lengths.clone(), arranged(&lengths, 20.0, [vec![], vec![]]));
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
    }
}
