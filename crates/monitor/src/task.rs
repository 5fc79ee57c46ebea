//! What came of each task.

use serde::{Deserialize, Serialize};

use crate::run::Run;

/// What came of one task; what the events do not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Name of the task.
    pub name: String,
    /// Samples of the committed steps.
    pub samples: u64,
    /// Mean loss in the last step that had samples of the task.
    pub loss: Option<f64>,
    /// Weight of the loss in the last step.
    pub weight: Option<f64>,
    /// Name of the metric, with its unit.
    pub metric_name: Option<String>,
    /// The metric of the last validation.
    pub metric: Option<f64>,
    /// The trivial baseline's metric on the same samples.
    pub baseline: Option<f64>,
    /// The metric over its baseline.
    pub ratio: Option<f64>,
    /// How far the peaks of its steps were from the prediction, as a share of it, on average over its samples.
    pub prediction_error: Option<f64>,
}

/// Sums each task up.
pub(crate) fn task_reports(run: &Run<'_>) -> Vec<TaskReport> {
    run.task_names().into_iter().enumerate().map(|(task, name)| task_report(run, task, name)).collect()
}

fn task_report(run: &Run<'_>, task: usize, name: String) -> TaskReport {
    let committed = || run.steps().filter(|it| it.committed).filter_map(|it| it.tasks.get(task));
    let validated = run.validations().filter_map(|it| it.tasks.get(task)).last();
    TaskReport {
        name,
        samples: committed().map(|it| u64::from(it.samples)).sum(),
        loss: committed().filter_map(|it| it.loss).last(),
        weight: committed().map(|it| it.weight).last(),
        metric_name: validated.map(|it| it.metric_name.clone()),
        metric: validated.map(|it| it.metric),
        baseline: validated.map(|it| it.baseline),
        ratio: validated.map(|it| it.metric / it.baseline).filter(|it| it.is_finite()),
        prediction_error: prediction_error(run, task),
    }
}

/// Returns the mean distance of peaks from predictions, weighted by the task's samples in each step.
fn prediction_error(run: &Run<'_>, task: usize) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0.0);
    for done in run.steps().filter(|it| it.committed) {
        let (Some(predicted), Some(of_task)) = (done.predicted, done.tasks.get(task)) else { continue };
        let samples = f64::from(of_task.samples);
        sum += samples * (done.peak.as_f64() / predicted.as_f64() - 1.0).abs();
        n += samples;
    }
    Some(sum / n).filter(|it| it.is_finite())
}
