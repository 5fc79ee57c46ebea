//! The order of batches of several tasks.

use super::batches::Batches;
use super::tasks::Tasks;

/// Orders batches so that the samples of every stretch have nearly the shares of the whole.
///
/// The batches wait in one queue for each task, by the task that they have most of beyond its share; at each step the
/// queue is taken whose first batch leaves the samples so far closest to the shares, in squares.
pub(super) fn keep_shares<const AXES: usize>(batches: &mut Batches<AXES>, tasks: Tasks<'_>) {
    let counts: Vec<f64> = batches.iter().flat_map(|batch| count(batch.ids, tasks)).collect();
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
        order.push(batches.spans[index]);
    }
    batches.spans = order;
}

fn count(ids: &[u32], tasks: Tasks<'_>) -> Vec<f64> {
    let mut counts = vec![0_u32; tasks.n];
    for id in ids {
        counts[tasks.of(*id)] += 1;
    }
    counts.into_iter().map(f64::from).collect()
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
