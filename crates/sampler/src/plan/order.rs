//! The order of batches of several tasks.

use super::batches::Batches;
use super::narrow::narrow;
use super::tasks::Tasks;

/// Orders batches so that the samples of every stretch have nearly the shares of the whole.
///
/// The batches wait in one queue for each task, by the task that they have most of beyond its share; at each step the
/// queue is taken whose first batch leaves the samples so far closest to the shares, in squares.
///
/// With two tasks no beginning is further from the shares than the worst batch alone, and so no stretch than twice that:
/// while one task is ahead, a batch of the other waits, and brings it back by no more than its own excess.
/// With more it was so in every mixture that was tried (`tests/it/shares.rs`), and is not proved.
pub(super) fn keep_shares<const AXES: usize>(batches: &mut Batches<AXES>, tasks: Tasks<'_>) {
    let order = in_shares(batches.iter().map(|batch| batch.ids.iter().copied()), tasks);
    batches.spans = order.into_iter().map(|index| batches.spans[index]).collect();
}

/// Orders whatever holds these samples so, and returns what comes first, and next.
///
/// That takes time in proportion to the queues that wait, times the tasks of one batch, for each batch, however many tasks
/// there are.
pub(crate) fn in_shares<I>(of_each: impl Iterator<Item = I>, tasks: Tasks<'_>) -> Vec<usize>
where
    I: Iterator<Item = u32>,
{
    let counts = Counts::new(of_each, tasks);
    let mut so_far = SoFar::new(&counts, tasks.n);
    let mut queues = vec![Vec::new(); tasks.n];
    for index in (0..counts.n()).rev() {
        let waiting = Waiting::new(index, counts.of(index), &so_far);
        queues[so_far.ahead(&waiting)].push(waiting);
    }
    queues.retain(|queue| !queue.is_empty());
    let mut order = Vec::with_capacity(counts.n());
    while let Some(queue) = so_far.nearest(&queues) {
        let Some(next) = queues[queue].pop() else { break };
        so_far.add(&next);
        order.push(next.index);
        if queues[queue].is_empty() {
            queues.remove(queue);
        }
    }
    order
}

/// How many samples of which tasks each batch has, of the tasks that it has any of.
struct Counts {
    counts: Vec<(u32, i64)>,
    starts: Vec<usize>,
}

impl Counts {
    fn new<I: Iterator<Item = u32>>(of_each: impl Iterator<Item = I>, tasks: Tasks<'_>) -> Self {
        let (mut counts, mut starts) = (Vec::new(), vec![0]);
        let mut of_task = vec![0; tasks.n];
        for ids in of_each {
            let start = counts.len();
            for task in ids.map(|id| tasks.of(id)) {
                if of_task[task] == 0 {
                    counts.push((narrow(task), 0));
                }
                of_task[task] += 1;
            }
            for (task, count) in &mut counts[start..] {
                *count = std::mem::take(&mut of_task[*task as usize]);
            }
            starts.push(counts.len());
        }
        Self { counts, starts }
    }

    /// Number of batches.
    fn n(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, index: usize) -> &[(u32, i64)] {
        &self.counts[self.starts[index]..self.starts[index + 1]]
    }
}

/// A batch that has no place yet.
#[derive(Clone)]
struct Waiting<'a> {
    index: usize,
    counts: &'a [(u32, i64)],
    n: i64,
    /// The squares, summed over the tasks, of what the batch alone has too many.
    squares: i128,
}

impl<'a> Waiting<'a> {
    fn new(index: usize, counts: &'a [(u32, i64)], so_far: &SoFar) -> Self {
        let SoFar { all, of_all, square_of_all, .. } = so_far;
        let n: i64 = counts.iter().map(|(_, count)| count).sum();
        let square: i128 = counts.iter().map(|(_, count)| times(*count, *count)).sum();
        let by_all: i128 = counts.iter().map(|(task, count)| times(of_all[*task as usize], *count)).sum();
        let squares = square * times(*all, *all) - 2 * by_all * times(n, *all) + times(n, n) * square_of_all;
        Self { index, counts, n, squares }
    }
}

/// How far the batches so far are from the shares.
///
/// With `all` samples of which `of_all[t]` are of task t, `sums[t]` of `n` so far are `sums[t] · all − of_all[t] · n` too many
/// of it, in parts of a sample, of which there are `all`: whole numbers, so that what is equally near is so on any machine.
struct SoFar {
    all: i64,
    of_all: Vec<i64>,
    n: i64,
    sums: Vec<i64>,
    /// The scalar products of `of_all` with itself and with `sums`.
    square_of_all: i128,
    of_all_by_sums: i128,
}

impl SoFar {
    fn new(counts: &Counts, n_tasks: usize) -> Self {
        let mut of_all = vec![0; n_tasks];
        for (task, count) in &counts.counts {
            of_all[*task as usize] += count;
        }
        let square_of_all = of_all.iter().map(|n| times(*n, *n)).sum();
        Self { all: of_all.iter().sum(), of_all, n: 0, sums: vec![0; n_tasks], square_of_all, of_all_by_sums: 0 }
    }

    /// The task that a batch has most of beyond its share; the last one where it has all of them in their shares.
    fn ahead(&self, batch: &Waiting<'_>) -> usize {
        let excess = |task: usize, count| times(count, self.all) - times(self.of_all[task], batch.n);
        let of_each = batch.counts.iter().map(|(task, count)| (excess(*task as usize, *count), *task as usize));
        of_each.max().filter(|(excess, _)| *excess > 0).map_or(self.of_all.len() - 1, |(_, task)| task)
    }

    fn add(&mut self, batch: &Waiting<'_>) {
        self.n += batch.n;
        for (task, count) in batch.counts {
            self.sums[*task as usize] += count;
            self.of_all_by_sums += times(self.of_all[*task as usize], *count);
        }
    }

    /// The queue whose first batch leaves the sums closest to the shares; of equals the first.
    fn nearest(&self, queues: &[Vec<Waiting<'_>>]) -> Option<usize> {
        let by_shares = self.of_all_by_sums * i128::from(self.all) - self.square_of_all * i128::from(self.n);
        let heads = queues.iter().enumerate().filter_map(|(queue, waiting)| Some((queue, waiting.last()?)));
        heads.min_by_key(|(_, head)| self.growth(head, by_shares)).map(|(queue, _)| queue)
    }

    /// By how much the sum of the squares of what is too many grows with a batch; `by_shares` is what is too many now, times
    /// the shares.
    fn growth(&self, batch: &Waiting<'_>, by_shares: i128) -> i128 {
        let too_many = |task: usize| times(self.sums[task], self.all) - times(self.of_all[task], self.n);
        let by_counts: i128 =
            batch.counts.iter().map(|(task, count)| too_many(*task as usize) * i128::from(*count)).sum();
        2 * (by_counts * i128::from(self.all) - by_shares * i128::from(batch.n)) + batch.squares
    }
}

fn times(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::batches::Span;

    /// The rule in plain words: all tasks of all heads, in parts of a sample.
    fn plain(batches: &[Vec<u32>], tasks: Tasks<'_>) -> Vec<usize> {
        let count = |batch: &[u32], task| batch.iter().filter(|id| tasks.of(**id) == task).count() as i128;
        let all: Vec<u32> = batches.concat();
        let excess = |ids: &[u32], task| count(ids, task) * all.len() as i128 - count(&all, task) * ids.len() as i128;
        let mut queues = vec![VecDeque::new(); tasks.n];
        for (index, batch) in batches.iter().enumerate() {
            queues[(0..tasks.n).max_by_key(|task| excess(batch, *task)).unwrap()].push_back(index);
        }
        let (mut order, mut so_far) = (Vec::new(), Vec::new());
        while let Some(head) = queues.iter().filter_map(|queue| queue.front().copied()).min_by_key(|head| {
            let with = [&so_far[..], &batches[*head]].concat();
            (0..tasks.n).map(|task| excess(&with, task).pow(2)).sum::<i128>()
        }) {
            for queue in &mut queues {
                queue.retain(|index| *index != head);
            }
            so_far.extend_from_slice(&batches[head]);
            order.push(head);
        }
        order
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_the_plain_rule(
            of in prop::collection::vec(0u16..7, 200), cuts in prop::collection::vec(1usize..9, 1..60)
        ) {
            let (tasks, mut ids) = (Tasks { of: &of, n: 8 }, 0..narrow(of.len()));
            let batches: Vec<Vec<u32>> = cuts.iter().map(|n| ids.by_ref().take(*n).collect()).collect();
            let batches: Vec<Vec<u32>> = batches.into_iter().filter(|batch| !batch.is_empty()).collect();
            let order = in_shares(batches.iter().map(|batch| batch.iter().copied()), tasks);
            prop_assert_eq!(order, plain(&batches, tasks));
        }

        #[test]
        fn no_beginning_of_two_tasks_is_further_from_the_shares_than_the_worst_batch(
            sizes in prop::collection::vec((0usize..60, 0usize..60), 1..80)
        ) {
            let (mut of, mut batches) = (Vec::new(), Batches::<1>::default());
            for (first, second) in sizes {
                let start = narrow(of.len());
                of.extend(std::iter::repeat_n(0_u16, first + 1).chain(std::iter::repeat_n(1, second)));
                batches.spans.push(Span { start, end: narrow(of.len()), partial: false, longest: [1], cell: [1] });
            }
            batches.ids = (0..narrow(of.len())).collect();
            let share = of.iter().filter(|task| **task == 0).count() as f64 / of.len() as f64;
            keep_shares(&mut batches, Tasks { of: &of, n: 2 });
            let excess = |ids: &[u32]| {
                ids.iter().map(|id| f64::from(u8::from(of[*id as usize] == 0)) - share).sum::<f64>()
            };
            let worst = batches.iter().map(|batch| excess(batch.ids).abs()).fold(0.0, f64::max);
            let mut so_far = 0.0_f64;
            for batch in batches.iter() {
                so_far += excess(batch.ids);
                prop_assert!(so_far.abs() <= worst + 1e-6, "{} after a batch, the worst alone is {}", so_far, worst);
            }
            prop_assert_eq!(batches.n_samples(), of.len());
        }
    }
}
