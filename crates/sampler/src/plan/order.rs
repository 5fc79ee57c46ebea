//! The order of batches of several tasks.

use super::batches::Batches;
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
pub(crate) fn in_shares<I>(of_each: impl Iterator<Item = I>, tasks: Tasks<'_>) -> Vec<usize>
where
    I: Iterator<Item = u32>,
{
    let counts = counts(of_each, tasks);
    let counts: Vec<&[f64]> = counts.chunks_exact(tasks.n).collect();
    let n_samples: f64 = counts.iter().copied().flatten().sum();
    let shares: Vec<f64> =
        (0..tasks.n).map(|task| counts.iter().map(|count| count[task]).sum::<f64>() / n_samples).collect();
    let mut queues = vec![Vec::new(); tasks.n];
    for (index, count) in counts.iter().enumerate().rev() {
        let size: f64 = count.iter().sum();
        let excess = |task: &usize| count[*task] - shares[*task] * size;
        let most = (0..tasks.n).max_by(|a, b| excess(a).total_cmp(&excess(b)));
        queues[most.unwrap_or(0)].push(index);
    }
    let mut so_far = vec![0.0; tasks.n];
    let mut order = Vec::with_capacity(counts.len());
    while let Some(queue) = nearest(&queues, &counts, &shares, &so_far) {
        let Some(index) = queues[queue].pop() else { break };
        for (sum, count) in so_far.iter_mut().zip(counts[index]) {
            *sum += count;
        }
        order.push(index);
    }
    order
}

/// How many samples of each task each has, one after the other.
fn counts<I: Iterator<Item = u32>>(of_each: impl Iterator<Item = I>, tasks: Tasks<'_>) -> Vec<f64> {
    let mut counts = Vec::new();
    for ids in of_each {
        let start = counts.len();
        counts.resize(start + tasks.n, 0.0);
        let own = &mut counts[start..];
        ids.for_each(|id| own[tasks.of(id)] += 1.0);
    }
    counts
}

/// The queue whose head leaves the sums closest to the shares.
fn nearest(queues: &[Vec<usize>], counts: &[&[f64]], shares: &[f64], so_far: &[f64]) -> Option<usize> {
    let deviation = |index: usize| {
        let sums = so_far.iter().zip(counts[index]).map(|(sum, count)| sum + count);
        let total: f64 = sums.clone().sum();
        sums.zip(shares).map(|(sum, share)| (sum - share * total).powi(2)).sum::<f64>()
    };
    let heads = queues.iter().enumerate().filter_map(|(queue, waiting)| Some((queue, deviation(*waiting.last()?))));
    heads.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(queue, _)| queue)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::batches::Span;
    use crate::plan::narrow::narrow;

    proptest! {
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
