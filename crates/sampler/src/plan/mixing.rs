//! How well an epoch mixes.

use plimsoll_types::Fraction;
use serde::Serialize;

use super::batches::Batches;
use super::planner::BatchPlanner;
use super::window::Window;
use crate::CapacityRule;
use crate::hash::{Rng, Use};

/// How well an epoch mixes with the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mixing {
    /// The share of mates that may be kept.
    pub wanted: Fraction,
    /// The share of mates that epochs of these samples keep at most, in the mean: above what is wanted where there are few
    /// batches to mix with, and below it where windows alone mix more.
    ///
    /// On any number of axes, it follows from how many batches are mixed at each place of a window, as simulations of such
    /// a line say, and a tenth more.
    /// An epoch of a few dozen batches may keep more by chance.
    pub reachable: Fraction,
    /// The share of mates that are kept.
    pub kept: f64,
}

impl<R: CapacityRule<AXES>, const AXES: usize> BatchPlanner<R, AXES> {
    /// Holds an epoch's batches against those of the next epoch, which it plans.
    pub(super) fn mixing(&self, epoch: u64, batches: &Batches<AXES>) -> Mixing {
        let mut progress = self.start(epoch.wrapping_add(1));
        let (mut window, mut next) = (Window::default(), Batches::default());
        let of_tasks = OfTasks::new(self.index.tasks(), batches);
        let mut reachable = 0.0;
        while self.plan_window(&mut progress, &mut window) {
            let taken = window.batches.iter().flat_map(|batch| batch.ids);
            let ids = taken.chain(progress.carried.0.iter()).copied();
            reachable += window.reachable * of_tasks.share_again(ids);
            next.append(&window.batches);
        }
        Mixing {
            wanted: self.config().most_mates_kept,
            reachable: Fraction::try_new(reachable).unwrap_or(Fraction::ONE),
            kept: mates_kept(batches, &next),
        }
    }
}

/// What a plan has of each task; everything is of one task where there are none.
struct OfTasks<'a> {
    tasks: Option<&'a [u16]>,
    n_samples: Vec<f64>,
    n_batches: Vec<f64>,
}

impl<'a> OfTasks<'a> {
    fn new<const AXES: usize>(tasks: Option<&'a [u16]>, batches: &Batches<AXES>) -> Self {
        let n_tasks = tasks.into_iter().flatten().max().map_or(1, |most| usize::from(*most) + 1);
        let mut of = Self { tasks, n_samples: vec![0.0; n_tasks], n_batches: vec![0.0; n_tasks] };
        for batch in batches.iter() {
            for id in batch.ids {
                let task = of.task(*id);
                of.n_samples[task] += 1.0;
                of.n_batches[task] += 1.0 / (batch.ids.len() * batches.len()) as f64;
            }
        }
        of
    }

    fn task(&self, id: u32) -> usize {
        self.tasks.map_or(0, |tasks| usize::from(tasks[id as usize]))
    }

    /// The share of a batch's pairs of which both samples are in this window of another epoch: where tasks have shares, a
    /// window has more of one task than of another.
    fn share_again(&self, window: impl Iterator<Item = u32>) -> f64 {
        let mut counts = vec![0.0; self.n_samples.len()];
        window.for_each(|id| counts[self.task(id)] += 1.0);
        let shares = counts.iter().zip(&self.n_samples).zip(&self.n_batches);
        shares.map(|((n, all), weight)| weight * (n / all.max(1.0)).powi(2)).sum()
    }
}

/// Returns the share of pairs of a batch that share a batch in the next epoch too, each batch counted alike: 0 to 1.
///
/// Batches of one sample have no pairs and do not count; a sample that the next epoch lacks meets nobody in it.
pub fn mates_kept<const AXES: usize>(here: &Batches<AXES>, next: &Batches<AXES>) -> f64 {
    let batch_in_next = places(next, |batch, _| batch);
    let later = |id: &u32| (*id, batch_in_next.get(*id as usize).filter(|batch| **batch != NOWHERE));
    pairs_kept(here.iter().map(|batch| batch.ids.iter().map(later)))
}

/// Returns the share of a group's pairs whose members are at one place later, each group counted alike; each member says who
/// it is, and where that is if it comes again. Who is in a group twice is one member; groups of one have no pairs and do not
/// count.
pub(crate) fn pairs_kept<I: Copy + Ord, P: Ord>(
    groups: impl Iterator<Item = impl Iterator<Item = (I, Option<P>)>>,
) -> f64 {
    let (mut sum, mut n_groups) = (0.0, 0.0);
    let mut members = Vec::new();
    for group in groups {
        members.clear();
        members.extend(group);
        members.sort_unstable_by_key(|it| it.0);
        members.dedup_by_key(|it| it.0);
        if members.len() < 2 {
            continue;
        }
        members.sort_unstable_by(|a, b| a.1.cmp(&b.1));
        let pairs = |n: usize| (n * (n - 1)) as f64;
        let same = members.chunk_by(|a, b| a.1 == b.1).filter(|same| same[0].1.is_some());
        sum += same.map(|same| pairs(same.len())).sum::<f64>() / pairs(members.len());
        n_groups += 1.0;
    }
    if n_groups > 0.0 { sum / n_groups } else { 0.0 }
}

/// Returns Spearman's rank correlation between the samples' places in two epochs: −1 to 1, and near 0 when the order of
/// one says nothing of the order of the other.
///
/// Both epochs have the same samples.
pub fn rank_correlation<const AXES: usize>(here: &Batches<AXES>, next: &Batches<AXES>) -> f64 {
    let place_in_next = places(next, |_, place| place);
    let ids = here.iter().flat_map(|batch| batch.ids);
    let square = |(place, id): (u32, &u32)| f64::from(place.abs_diff(place_in_next[*id as usize])).powi(2);
    let squares: f64 = (0..).zip(ids).map(square).sum();
    let n = here.n_samples() as f64;
    if n < 2.0 { 1.0 } else { 1.0 - 6.0 * squares / (n * (n * n - 1.0)) }
}

/// Returns the mean entropy of the tasks in each group of `batches_per_group` batches, over that of groups of the same
/// sizes drawn at random: 1 when the order mixes the tasks as well as chance does, above 1 when better.
///
/// `tasks` has the task of each sample by id; `None` when random groups have no entropy, as with a single task.
///
/// # Panics
///
/// When `batches_per_group` is zero, or a sample has no task.
pub fn task_entropy_ratio<const AXES: usize>(
    batches: &Batches<AXES>,
    tasks: &[u16],
    batches_per_group: usize,
) -> Option<f64> {
    let mut in_order: Vec<u16> = batches.iter().flat_map(|batch| batch.ids).map(|id| tasks[*id as usize]).collect();
    let spans: Vec<usize> = batches.iter().map(|batch| batch.ids.len()).collect();
    let sizes: Vec<usize> = spans.chunks(batches_per_group).map(|group| group.iter().sum()).collect();
    let planned = mean_entropy(&in_order, &sizes);
    Rng::new(Use::Reference, 0, 0, 0).shuffle(&mut in_order);
    let random = mean_entropy(&in_order, &sizes);
    (random > 0.0).then(|| planned / random)
}

/// The mean over groups of these sizes, in nats.
fn mean_entropy(tasks: &[u16], sizes: &[usize]) -> f64 {
    let n_tasks = tasks.iter().max().map_or(0, |most| usize::from(*most) + 1);
    let (mut left, mut sum) = (tasks, 0.0);
    for size in sizes {
        let (group, after) = left.split_at(*size);
        let mut counts = vec![0usize; n_tasks];
        for task in group {
            counts[usize::from(*task)] += 1;
        }
        let shares = counts.iter().filter(|count| **count > 0).map(|count| *count as f64 / *size as f64);
        sum -= shares.map(|share| share * share.ln()).sum::<f64>();
        left = after;
    }
    sum / sizes.len() as f64
}

/// What there is no sample of.
const NOWHERE: u32 = u32::MAX;

/// Something of each sample's batch and place, by id.
fn places<const AXES: usize>(batches: &Batches<AXES>, of: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    let most = batches.iter().flat_map(|batch| batch.ids).max();
    let mut places = vec![NOWHERE; most.map_or(0, |most| *most as usize + 1)];
    let mut place = 0;
    for (batch, some) in (0..).zip(batches.iter()) {
        for id in some.ids {
            places[*id as usize] = of(batch, place);
            place += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::batches::Span;

    fn batches(ids: &[&[u32]]) -> Batches<1> {
        let mut all = Batches::default();
        for some in ids {
            let start = u32::try_from(all.ids.len()).unwrap();
            all.ids.extend_from_slice(some);
            let end = u32::try_from(all.ids.len()).unwrap();
            all.spans.push(Span { start, end, partial: false, longest: [1], cell: [1] });
        }
        all
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value}, expected {expected}");
    }

    #[test]
    fn mates_are_counted_in_pairs_per_batch() {
        let here = batches(&[&[0, 1, 2], &[3, 4], &[5]]);
        near(mates_kept(&here, &here), 1.0);
        near(mates_kept(&here, &batches(&[&[0, 3], &[1, 4], &[2, 5]])), 0.0);
        // One pair of three in the first batch, none of one in the second.
        near(mates_kept(&here, &batches(&[&[1, 0, 3], &[4, 2], &[5]])), 1.0 / 6.0);
    }

    #[test]
    fn who_does_not_come_again_meets_nobody_and_nobody_is_a_mate_of_oneself() {
        let here = batches(&[&[0, 1, 2], &[3, 4]]);
        near(mates_kept(&here, &batches(&[&[5, 6]])), 0.0);
        near(mates_kept(&here, &batches(&[&[0, 1, 5]])), 1.0 / 6.0);
        // Three members, of which two meet again.
        near(mates_kept(&batches(&[&[7, 7, 8, 9], &[3, 3]]), &batches(&[&[7, 8, 8], &[9, 3]])), 1.0 / 3.0);
    }

    #[test]
    fn ranks_correlate_with_themselves() {
        let here = batches(&[&[0, 1], &[2, 3]]);
        near(rank_correlation(&here, &here), 1.0);
        near(rank_correlation(&here, &batches(&[&[3, 2], &[1, 0]])), -1.0);
        near(rank_correlation(&here, &batches(&[&[1, 3], &[0, 2]])), 0.0);
    }

    #[test]
    fn sorted_tasks_have_no_entropy() {
        let tasks: Vec<u16> = (0..400).map(|id| id / 200).collect();
        let sorted: Vec<Vec<u32>> = (0..40).map(|batch| (batch * 10..batch * 10 + 10).collect()).collect();
        let sorted = batches(&sorted.iter().map(Vec::as_slice).collect::<Vec<_>>());
        near(task_entropy_ratio(&sorted, &tasks, 2).unwrap(), 0.0);
        assert_eq!(task_entropy_ratio(&sorted, &[0; 400], 2), None);
        let even: Vec<Vec<u32>> =
            (0..40).map(|batch| (0..10).map(|k| batch * 5 + k % 5 + k / 5 * 200).collect()).collect();
        let even = batches(&even.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let ratio = task_entropy_ratio(&even, &tasks, 1).unwrap();
        assert!(ratio > 1.0 && ratio < 1.2, "{ratio}");
    }
}
