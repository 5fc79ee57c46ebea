//! Which samples come into the window.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::TaskMix;
use super::identity::{same, within};
use super::narrow::narrow;
use super::shares::{TaskPlan, check_shares, next_task, quotas, task_plans};
use crate::block_permutation::BlockPermutation;
use crate::hash::{Use, digest, hash};
use crate::{PlanError, PositionError, SampleIndex};

/// The order of an epoch: one permutation of all samples, or one of each task's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    seed: u64,
    n_samples: u64,
    by_task: Option<ByTask>,
    /// The weights up to each sample, where samples are drawn with replacement.
    weights: Option<Arc<[f64]>>,
}

/// The samples of each task.
#[derive(Clone, Debug, PartialEq)]
struct ByTask {
    shares: Vec<f64>,
    /// Samples of each in an epoch.
    quotas: Vec<u64>,
    /// Where the members of each task begin, and where the last ones end.
    starts: Vec<usize>,
    members: Arc<[u32]>,
}

/// What an epoch has drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drawn {
    /// Samples drawn of each permutation.
    pub(crate) drawn: Vec<u64>,
    /// What it was when the last task ran out of samples.
    pub(crate) since: Vec<u64>,
}

/// How much is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// A window of at most so many samples, over which the tasks have the same shares from beginning to end.
    Window(usize),
    /// So many samples.
    Exactly(u64),
}

/// A stretch after a task has run out of samples is a window of its own when it has more than this part of a window:
/// a smaller one would be padded more than the shares of so few samples are worth.
const LEAST_STRETCH: usize = 32;

impl Drawn {
    pub(crate) fn total(&self) -> u64 {
        self.drawn.iter().sum()
    }
}

impl Source {
    pub(crate) fn try_new<const AXES: usize>(
        index: &SampleIndex<AXES>,
        seed: u64,
        mix: &TaskMix,
    ) -> Result<Self, PlanError> {
        let by_task = match (&mix.shares, index.tasks()) {
            (Some(shares), tasks) => Some(ByTask::try_new(shares, tasks, index.n_samples(), mix)?),
            (None, _) => None,
        };
        if by_task.is_some() && index.weights().is_some() {
            return Err(PlanError::WeightsAndShares);
        }
        Ok(Self { seed, n_samples: index.n_samples() as u64, by_task, weights: index.weights().cloned() })
    }

    /// Nothing drawn.
    pub(crate) fn start(&self) -> Drawn {
        let n = self.by_task.as_ref().map_or(1, |by_task| by_task.shares.len());
        Drawn { drawn: vec![0; n], since: vec![0; n] }
    }

    /// Refuses what a position says was drawn, where no epoch reaches it.
    pub(crate) fn check_drawn(&self, Drawn { drawn, since }: &Drawn) -> Result<(), PositionError> {
        let sizes = self.sizes();
        same("task shares", drawn.len() as u64, sizes.len() as u64)?;
        same("task shares", since.len() as u64, sizes.len() as u64)?;
        let mut limits = since.iter().zip(drawn).chain(drawn.iter().zip(&sizes));
        limits.try_for_each(|(value, most)| within("drawn", *value, *most))
    }

    /// The most that can be drawn of each permutation.
    fn sizes(&self) -> Vec<u64> {
        match &self.by_task {
            Some(by_task) => by_task.quotas.clone(),
            None => vec![self.n_samples],
        }
    }

    /// Samples of an epoch, each as often as it comes.
    pub(crate) fn total(&self) -> u64 {
        self.by_task.as_ref().map_or(self.n_samples, |by_task| by_task.quotas.iter().sum())
    }

    /// How often a sample comes in an epoch at most; of those that are drawn with replacement, nobody knows.
    pub(crate) fn most_rounds(&self) -> Option<u64> {
        let rounds = |it: &ByTask| {
            let sizes = it.starts.windows(2).map(|ends| (ends[1] - ends[0]) as u64);
            sizes.zip(&it.quotas).map(|(size, quota)| quota.div_ceil(size.max(1))).max().unwrap_or(1)
        };
        self.weights.is_none().then(|| self.by_task.as_ref().map_or(1, rounds))
    }

    pub(crate) fn task_plans(&self) -> Option<Vec<TaskPlan>> {
        let by_task = self.by_task.as_ref()?;
        Some(task_plans(&by_task.shares, &by_task.quotas))
    }

    /// Refuses a source that draws in other shares.
    pub(super) fn check_shares(&self, other: &Self) -> Result<(), PositionError> {
        let digest = |of: &Self| {
            let words =
                |it: &ByTask| it.shares.iter().map(|it| it.to_bits()).chain(it.quotas.iter().copied()).collect();
            of.by_task.as_ref().map_or(0, |it| digest::<u64>(&words(it) as &Vec<u64>))
        };
        same("fingerprint of the task shares", digest(self), digest(other))
    }

    /// Appends the next ids of the epoch, or as many as are left.
    pub(crate) fn draw(&self, epoch: u64, drawn: &mut Drawn, stretch: Stretch, ids: &mut Vec<u32>) {
        if let Some(by_task) = &self.by_task {
            return by_task.draw(self.seed, epoch, drawn, stretch, ids);
        }
        let k = match stretch {
            Stretch::Window(k) => k as u64,
            Stretch::Exactly(k) => k,
        };
        let (start, end) = (drawn.drawn[0], self.n_samples.min(drawn.drawn[0].saturating_add(k)));
        drawn.drawn[0] = end;
        if let Some(weights) = &self.weights {
            return ids
                .extend((start..end).map(|place| weighted(weights, hash(Use::Weights, self.seed, epoch, place))));
        }
        BlockPermutation::new(self.n_samples, self.seed, epoch, 0).extend(start..end, ids);
    }
}

/// The sample at which the weights pass a random part of their sum.
fn weighted(up_to: &[f64], bits: u64) -> u32 {
    let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
    let at = up_to.last().copied().unwrap_or(0.0) * part;
    let last = up_to.len() - 1;
    // Rounding may reach the sum itself: the last that has a weight is the one at which it is first reached.
    let id = up_to.partition_point(|sum| *sum <= at).min(last);
    narrow(id.min(up_to.partition_point(|sum| *sum < up_to[last])))
}

impl ByTask {
    fn try_new(shares: &[f64], tasks: Option<&[u16]>, n_samples: usize, mix: &TaskMix) -> Result<Self, PlanError> {
        let task_of = |id: usize| tasks.map_or(0, |tasks| usize::from(tasks[id]));
        let mut sizes = vec![0; (0..n_samples).map(task_of).max().unwrap_or(0) + 1];
        for id in 0..n_samples {
            sizes[task_of(id)] += 1;
        }
        let shares = check_shares(shares, &sizes, mix)?;
        sizes.resize(shares.len(), 0);
        let quotas = quotas(&shares, &sizes, mix.ends, BlockPermutation::MOST)?;
        let mut starts = vec![0];
        starts.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        let mut next = starts.clone();
        let mut members = vec![0; n_samples];
        for id in 0..n_samples {
            let place = &mut next[task_of(id)];
            members[*place] = narrow(id);
            *place += 1;
        }
        Ok(Self { shares, quotas, starts, members: members.into() })
    }

    fn draw(&self, seed: u64, epoch: u64, drawn: &mut Drawn, stretch: Stretch, ids: &mut Vec<u32>) {
        let before = drawn.drawn.clone();
        let order = self.order(drawn, stretch);
        let read = |(task, start): (usize, &[usize])| {
            let mut numbers = Vec::new();
            let (size, n_tasks) = ((start[1] - start[0]) as u64, self.shares.len() as u64);
            let (mut from, end) = (before[task], drawn.drawn[task]);
            while from < end {
                // A task that comes again does so in another order.
                let round = from / size;
                let to = end.min((round + 1) * size);
                let permutation = BlockPermutation::new(size, seed, epoch, 1 + task as u64 + n_tasks * round);
                permutation.extend(from - round * size..to - round * size, &mut numbers);
                from = to;
            }
            numbers.into_iter()
        };
        let mut numbers: Vec<_> = self.starts.windows(2).enumerate().map(read).collect();
        ids.extend(order.into_iter().filter_map(|task| {
            let number = numbers[task].next()?;
            Some(self.members[self.starts[task] + number as usize])
        }));
    }

    /// The tasks of the next samples.
    fn order(&self, drawn: &mut Drawn, stretch: Stretch) -> Vec<usize> {
        let sizes = &self.quotas;
        let mut n_left = sizes.iter().sum::<u64>() - drawn.total();
        let (k, least) = match stretch {
            Stretch::Window(k) => (n_left.min(k as u64), Some((k / LEAST_STRETCH) as u64)),
            Stretch::Exactly(k) => (n_left.min(k), None),
        };
        let mut order = Vec::new();
        while (order.len() as u64) < k {
            let left = (0..sizes.len()).filter(|task| drawn.drawn[*task] < sizes[*task]);
            let sum: f64 = left.clone().map(|task| self.shares[task]).sum();
            let taken = |task| (task, self.shares[task] / sum, drawn.drawn[task] - drawn.since[task]);
            let Some(task) = next_task(left.map(taken), sizes.len()) else { break };
            drawn.drawn[task] += 1;
            n_left -= 1;
            order.push(task);
            if drawn.drawn[task] < sizes[task] {
                continue;
            }
            drawn.since.clone_from(&drawn.drawn);
            if least.is_some_and(|least| n_left > least) {
                break;
            }
        }
        order
    }
}
