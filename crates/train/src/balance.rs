//! How much each task counts in a step's loss.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How tasks are to be balanced.
#[derive(Clone, Debug, PartialEq)]
pub enum BalanceConfig {
    /// Each keeps its weight.
    Fixed {
        /// One for each task, in any scale; none for equal ones.
        weights: Vec<f64>,
    },
    /// Those that learn slowly come to count more; see [`GradNorm`].
    GradNorm {
        /// How much more, at least 0; the paper uses 1.5 for tasks that differ much.
        alpha: f64,
        /// How fast, above 0; the paper uses 0.025.
        learning_rate: f64,
    },
}

impl Default for BalanceConfig {
    fn default() -> Self {
        Self::GradNorm { alpha: 1.5, learning_rate: 0.025 }
    }
}

/// Why tasks cannot be balanced as they are asked to be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BalanceError {
    /// There is not one weight for each task.
    #[error("balance the tasks: `tasks.weights` has {weights} numbers for {n_tasks} tasks; give one for each, or none")]
    Count {
        /// Weights that were given.
        weights: usize,
        /// Tasks that there are.
        n_tasks: usize,
    },
    /// A weight makes no sense.
    #[error("balance the tasks: `tasks.weights` has {0}, each must be above 0")]
    Weight(f64),
    /// The job does not say what `GradNorm` needs.
    #[error(
        "balance the tasks: GradNorm needs the gradient of each of {n_tasks} tasks, the job measures {n_probes}; \
         measure them, or let `tasks.balance` be \"fixed\""
    )]
    NotMeasured {
        /// Gradients that are measured.
        n_probes: usize,
        /// Tasks that there are.
        n_tasks: usize,
    },
    /// A setting of `GradNorm` makes no sense.
    #[error("balance the tasks: `tasks.{key}` is {value}, it must be a number {wanted} 0")]
    Setting {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: f64,
        /// `at least` or `above`.
        wanted: &'static str,
    },
}

/// The weights of the tasks, whose sum is their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskBalance {
    /// Weights that stay.
    Fixed {
        /// One for each task.
        weights: Vec<f64>,
    },
    /// Weights that follow the gradients.
    GradNorm(GradNorm),
}

impl TaskBalance {
    /// Starts with the weights that are configured, or with equal ones.
    ///
    /// # Errors
    ///
    /// [`BalanceError`] names the setting, its value and what would be right.
    pub fn try_new(config: &BalanceConfig, n_tasks: usize) -> Result<Self, BalanceError> {
        match config {
            BalanceConfig::Fixed { weights } => Ok(Self::Fixed { weights: normalised(weights, n_tasks)? }),
            BalanceConfig::GradNorm { alpha, learning_rate } => {
                Ok(Self::GradNorm(GradNorm::try_new(*alpha, *learning_rate, n_tasks)?))
            }
        }
    }

    /// Returns the weight of each task in the next step.
    pub fn weights(&self) -> &[f64] {
        match self {
            Self::Fixed { weights } => weights,
            Self::GradNorm(balance) => &balance.weights,
        }
    }

    /// Learns from a step: of each task its loss, without its weight, and the norm of the gradient of its weighted loss
    /// at the last shared layer.
    ///
    /// A task that the step did not have, or that was not measured, is left as it is.
    pub fn observe(&mut self, losses: &[Option<f64>], norms: &[Option<f64>]) {
        match self {
            Self::Fixed { .. } => (),
            Self::GradNorm(balance) => balance.observe(losses, norms),
        }
    }

    /// Refuses a job that does not measure what the balance needs.
    pub(crate) fn check(&self, n_probes: usize) -> Result<(), BalanceError> {
        let n_tasks = self.weights().len();
        match self {
            Self::GradNorm(_) if n_probes != n_tasks => Err(BalanceError::NotMeasured { n_probes, n_tasks }),
            _ => Ok(()),
        }
    }

    /// Returns the settings that it was made of, each by its key.
    pub(crate) fn settings(&self) -> Value {
        match self {
            Self::Fixed { weights } => json!({ "balance": "fixed", "weights": weights }),
            Self::GradNorm(GradNorm { alpha, learning_rate, .. }) => {
                json!({ "balance": "gradnorm", "alpha": alpha, "learning_rate": learning_rate })
            }
        }
    }
}

/// Weights that bring the gradients of all tasks to one size, and a little more to those that learn slowly.
///
/// With `G` the norm of the gradient of a task's weighted loss at the last shared layer, and `r` its inverse training
/// rate (its loss over its first one) relative to the mean of all tasks, the weights descend the gradient of
/// `Σ |G − mean(G) · r^alpha|`, whose second term is held fixed, and are scaled to add up to the number of tasks.
///
/// `G` is proportional to its weight, so a task's term falls in a straight line to 0 and rises again from there; a step
/// that would cross that point ends on it. (The proximal step: it can neither swing to and fro, however unlike the
/// tasks' scales are, nor make a weight negative.)
///
/// # Sources
///
/// Chen, Badrinarayanan, Lee and Rabinovich, "`GradNorm`: Gradient Normalization for Adaptive Loss Balancing in Deep
/// Multitask Networks", ICML 2018.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradNorm {
    alpha: f64,
    learning_rate: f64,
    weights: Vec<f64>,
    /// Of each task, once it was seen.
    first_losses: Vec<Option<f64>>,
}

/// A task in one step.
struct Seen {
    task: usize,
    /// Loss over the first loss.
    inverse_rate: f64,
    norm: f64,
}

impl GradNorm {
    fn try_new(alpha: f64, learning_rate: f64, n_tasks: usize) -> Result<Self, BalanceError> {
        let refuse = |key, value, wanted| Err(BalanceError::Setting { key, value, wanted });
        if !(alpha.is_finite() && 0.0 <= alpha) {
            return refuse("alpha", alpha, "at least");
        }
        if !(learning_rate.is_finite() && 0.0 < learning_rate) {
            return refuse("learning_rate", learning_rate, "above");
        }
        Ok(Self { alpha, learning_rate, weights: vec![1.0; n_tasks], first_losses: vec![None; n_tasks] })
    }

    fn observe(&mut self, losses: &[Option<f64>], norms: &[Option<f64>]) {
        let seen = self.seen(losses, norms);
        if seen.len() < 2 {
            return;
        }
        let mean = |of: fn(&Seen) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
        let (mean_norm, mean_rate) = (mean(|it| it.norm), mean(|it| it.inverse_rate));
        let sum = |weights: &[f64]| seen.iter().map(|it| weights[it.task]).sum::<f64>();
        let before = sum(&self.weights);
        for Seen { task, inverse_rate, norm } in &seen {
            let target = mean_norm * (inverse_rate / mean_rate).powf(self.alpha);
            let weight = &mut self.weights[*task];
            // The norm for a weight of 1, and the weight whose norm is the target.
            let slope = norm / *weight;
            let (best, step) = (target / slope, self.learning_rate * slope);
            *weight = best.clamp(*weight - step, *weight + step);
        }
        let scale = before / sum(&self.weights);
        for Seen { task, .. } in &seen {
            self.weights[*task] *= scale;
        }
    }

    /// Returns the tasks that have something to compare, and remembers first losses.
    fn seen(&mut self, losses: &[Option<f64>], norms: &[Option<f64>]) -> Vec<Seen> {
        let measured = losses.iter().zip(norms).enumerate().filter_map(|(task, (loss, norm))| {
            let is_size = |it: &f64| it.is_finite() && 0.0 < *it;
            let (loss, norm) = (loss.filter(is_size)?, norm.filter(is_size)?);
            let first = *self.first_losses.get_mut(task)?.get_or_insert(loss);
            Some(Seen { task, inverse_rate: loss / first, norm })
        });
        measured.collect()
    }
}

/// Scales weights to add up to the number of tasks.
fn normalised(weights: &[f64], n_tasks: usize) -> Result<Vec<f64>, BalanceError> {
    if weights.is_empty() {
        return Ok(vec![1.0; n_tasks]);
    }
    if weights.len() != n_tasks {
        return Err(BalanceError::Count { weights: weights.len(), n_tasks });
    }
    if let Some(weight) = weights.iter().find(|it| !(it.is_finite() && 0.0 < **it)) {
        return Err(BalanceError::Weight(*weight));
    }
    let sum: f64 = weights.iter().sum();
    Ok(weights.iter().map(|weight| weight * n_tasks as f64 / sum).collect())
}

#[cfg(test)]
mod tests;
