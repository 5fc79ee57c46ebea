//! What came of each task.

use plimsoll_types::{NamedMetric, StepDone, Validated};
use serde::{Deserialize, Serialize};

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

/// What the tasks of a run come to, by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TaskSums {
    names: Vec<String>,
    tasks: Vec<TaskSum>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct TaskSum {
    samples: u64,
    loss: Option<f64>,
    weight: Option<f64>,
    /// The last measurement.
    validated: Option<NamedMetric>,
    /// Distances of peaks from predictions by the samples in each step, and these.
    errors: (f64, f64),
}

impl TaskSums {
    pub(crate) fn name(&mut self, names: &[String]) {
        names.clone_into(&mut self.names);
        self.see(names.len());
    }

    /// Hears of so many tasks.
    pub(crate) fn see(&mut self, n: usize) {
        self.tasks.resize_with(n.max(self.tasks.len()), TaskSum::default);
    }

    /// Takes in a committed step.
    pub(crate) fn hear(&mut self, step: &StepDone) {
        // Of nothing, no peak is any share.
        let predicted = step.predicted.filter(|it| 0 < it.0);
        let error = predicted.map(|it| (step.peak.as_f64() / it.as_f64() - 1.0).abs());
        for (sum, it) in self.tasks.iter_mut().zip(&step.tasks) {
            sum.samples += u64::from(it.samples);
            sum.loss = it.loss.or(sum.loss);
            sum.weight = Some(it.weight);
            if let Some(error) = error {
                let samples = f64::from(it.samples);
                sum.errors = (sum.errors.0 + samples * error, sum.errors.1 + samples);
            }
        }
    }

    pub(crate) fn validate(&mut self, validated: &Validated) {
        self.see(validated.tasks.len());
        for (sum, it) in self.tasks.iter_mut().zip(&validated.tasks) {
            sum.validated = Some(it.clone());
        }
    }

    /// Returns the name of each task; a task whose name nobody said goes by its number.
    pub(crate) fn names(&self) -> Vec<String> {
        (0..self.tasks.len()).map(|it| name_of(&self.names, it)).collect()
    }

    /// Sums each task up.
    pub(crate) fn reports(&self) -> Vec<TaskReport> {
        self.names().into_iter().zip(&self.tasks).map(|(name, it)| it.report(name)).collect()
    }
}

impl TaskSum {
    fn report(&self, name: String) -> TaskReport {
        let validated = self.validated.as_ref();
        TaskReport {
            name,
            samples: self.samples,
            loss: self.loss,
            weight: self.weight,
            metric_name: validated.map(|it| it.metric_name.clone()),
            metric: validated.map(|it| it.metric),
            baseline: validated.map(|it| it.baseline),
            ratio: validated.map(|it| it.metric / it.baseline).filter(|it| it.is_finite()),
            prediction_error: Some(self.errors.0 / self.errors.1).filter(|it| it.is_finite()),
        }
    }
}

/// Returns the name of a task; one whose name nobody said goes by its number.
pub(crate) fn name_of(names: &[String], task: usize) -> String {
    names.get(task).cloned().unwrap_or_else(|| format!("task {task}"))
}
