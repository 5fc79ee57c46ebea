//! What a model must beat.

use super::lines::Asks;
use super::sample::Sample;
use super::samples::Samples;

/// What the best constant answer comes to on some held-out samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constant {
    /// Mean cross-entropy in nats: how often each answer occurs in training, or all alike where that is better.
    pub(crate) nats: f64,
    /// How often the answer that is most frequent in training is right, in per cent.
    pub(crate) accuracy: f64,
}

impl Constant {
    /// Measures it on those of some held-out samples that are of a task; no number where none is.
    pub(crate) fn of(samples: &Samples, held_out: &[&Sample], task: u16) -> Self {
        let is_of_task = |it: &&Sample| it.task == task;
        let (asks, n_answers) = (samples.tasks()[usize::from(task)].asks, samples.sizes().outputs[usize::from(task)]);
        if asks == Asks::Order {
            // Both orders are measured.
            return Self { nats: 2f64.ln(), accuracy: 50.0 };
        }
        // Every answer counts once more than it occurs: what never occurred is not impossible.
        let mut counts = vec![1.0; n_answers];
        samples.train.iter().filter(is_of_task).for_each(|it| counts[it.answer] += 1.0);
        let total: f64 = counts.iter().sum();
        let most = (0..n_answers).rev().max_by(|a, b| counts[*a].total_cmp(&counts[*b]));
        let answers: Vec<_> = held_out.iter().copied().filter(is_of_task).map(|it| it.answer).collect();
        let n = answers.len() as f64;
        let nats = answers.iter().map(|it| (total / counts[*it]).ln()).sum::<f64>() / n;
        let n_right = answers.iter().filter(|it| Some(**it) == most).count();
        Self { nats: nats.min((n_answers as f64).ln()), accuracy: 100.0 * n_right as f64 / n }
    }
}
