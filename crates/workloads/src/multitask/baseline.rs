//! What a model must beat.

use super::lines::Task;
use super::samples::{Sample, Samples};

/// Returns the mean loss of the best constant prediction on those of some held-out samples that are of a task.
pub(crate) fn baseline(samples: &Samples, held_out: &[&Sample], task: Task) -> f64 {
    if task == Task::Pair {
        // Both orders are measured.
        return 2f64.ln();
    }
    let is_of_task = |it: &&Sample| it.task == task;
    // Every subject counts once more than it occurs: what never occurred is not impossible.
    let mut counts = vec![1.0; samples.subjects.len()];
    samples.train.iter().filter(is_of_task).for_each(|it| counts[it.groups[0].subject] += 1.0);
    let total: f64 = counts.iter().sum();
    let losses = held_out.iter().copied().filter(is_of_task).map(|it| (total / counts[it.groups[0].subject]).ln());
    let n = losses.clone().count();
    (losses.sum::<f64>() / n as f64).min((counts.len() as f64).ln())
}
