//! Metrics of Burn's dashboard that show what steps take.

use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry, SerializedEntry,
    format_float,
};
use plimsoll_types::Bytes;

use crate::figures::{Figures, StepFigures};

/// The metrics of a strategy; [`GuardedStrategy::metrics`](crate::GuardedStrategy::metrics) returns them.
///
/// Each works with every model, and is registered with
/// [`metric_train_numeric`](burn::train::SupervisedTraining::metric_train_numeric); in validation it has no value.
#[derive(Clone, Debug)]
pub struct StepMetrics(pub(crate) Figures);

impl StepMetrics {
    /// Samples of an optimizer step; over an epoch, their mean.
    pub fn effective_batch_size(&self) -> StepMetric {
        let read = |it: &StepFigures| Some((it.n_samples as f64, 1.0));
        self.metric(About { name: "Effective Batch Size", unit: "samples", higher_is_better: true }, Over::Mean, read)
    }

    /// Samples of a micro-batch; over an epoch, their mean.
    pub fn micro_batch_size(&self) -> StepMetric {
        let read = |it: &StepFigures| share(it.n_samples as f64, it.n_parts as f64);
        self.metric(About { name: "Micro-Batch Size", unit: "samples", higher_is_better: true }, Over::Mean, read)
    }

    /// The share of positions that are padding, by the lengths of samples; over an epoch, of all positions.
    pub fn padding(&self) -> StepMetric {
        let read = |it: &StepFigures| {
            let (padded, positions) = (it.padded as f64, it.positions as f64);
            share(100.0 * (padded - positions), padded)
        };
        self.metric(About { name: "Padding", unit: "%", higher_is_better: false }, Over::Mean, read)
    }

    /// Samples per second, loading and all; over an epoch, of its training time.
    pub fn samples_per_second(&self) -> StepMetric {
        let read = |it: &StepFigures| share(it.n_samples as f64, it.duration.as_secs_f64());
        self.metric(About { name: "Samples per Second", unit: "samples/s", higher_is_better: true }, Over::Mean, read)
    }

    /// What samples are long in, such as tokens, per second, without padding; over an epoch, of its training time.
    pub fn tokens_per_second(&self) -> StepMetric {
        let read = |it: &StepFigures| share(it.positions as f64, it.duration.as_secs_f64());
        self.metric(About { name: "Tokens per Second", unit: "tokens/s", higher_is_better: true }, Over::Mean, read)
    }

    /// The bound on a step's peak that was known before it ran, in per cent of the budget; over an epoch, the highest.
    pub fn predicted_peak(&self) -> StepMetric {
        let read = |it: &StepFigures| of_budget(it.predicted?, it.budget);
        self.metric(About { name: "Predicted Peak", unit: "% of budget", higher_is_better: false }, Over::Highest, read)
    }

    /// The measured peak of a step, in per cent of the budget; over an epoch, the highest.
    pub fn measured_peak(&self) -> StepMetric {
        let read = |it: &StepFigures| of_budget(it.peak, it.budget);
        self.metric(About { name: "Measured Peak", unit: "% of budget", higher_is_better: false }, Over::Highest, read)
    }

    /// Micro-batches that ran out of memory, and whose samples ran again; over an epoch, their sum.
    pub fn recoveries(&self) -> StepMetric {
        let read = |it: &StepFigures| Some((it.recoveries as f64, 1.0));
        self.metric(About { name: "Recoveries", unit: "micro-batches", higher_is_better: false }, Over::Sum, read)
    }

    fn metric(&self, about: About, over: Over, read: Read) -> StepMetric {
        StepMetric { about, over, read, figures: self.0.clone(), last: None, value: None, epoch: None }
    }
}

/// Returns a quotient with its divisor as the weight.
fn share(of: f64, by: f64) -> Option<(f64, f64)> {
    (0.0 < by).then(|| (of / by, by))
}

fn of_budget(peak: Bytes, budget: Bytes) -> Option<(f64, f64)> {
    share(100.0 * peak.0 as f64, budget.0 as f64).map(|(share, _)| (share, 1.0))
}

/// A metric of optimizer steps, in which each step counts once however many micro-batches it had.
#[derive(Clone, Debug)]
pub struct StepMetric {
    about: About,
    over: Over,
    read: Read,
    figures: Figures,
    /// The iteration that was read last.
    last: Option<usize>,
    value: Option<f64>,
    /// What the epoch comes to so far, and the weight of it.
    epoch: Option<(f64, f64)>,
}

/// Returns a step's value and its weight in a mean.
type Read = fn(&StepFigures) -> Option<(f64, f64)>;

#[derive(Clone, Copy, Debug)]
struct About {
    name: &'static str,
    unit: &'static str,
    higher_is_better: bool,
}

/// What the steps of an epoch come to.
#[derive(Clone, Copy, Debug)]
enum Over {
    Mean,
    Highest,
    Sum,
}

impl Over {
    fn add(self, (sum, weights): (f64, f64), (value, weight): (f64, f64)) -> (f64, f64) {
        match self {
            Self::Mean => ((sum * weights + value * weight) / (weights + weight), weights + weight),
            Self::Highest => (sum.max(value), weight),
            Self::Sum => (sum + value, weight),
        }
    }
}

impl StepMetric {
    fn entry(&self, serialized: Option<NumericEntry>) -> SerializedEntry {
        let (Some(serialized), Some((epoch, _))) = (serialized, self.epoch) else {
            return SerializedEntry::not_available(Some(self.about.unit));
        };
        let (unit, value) = (self.about.unit, self.value.unwrap_or(f64::NAN));
        let [epoch, value] = [epoch, value].map(|it| if it == 0.0 { "0".to_owned() } else { format_float(it, 1) });
        SerializedEntry::new(format!("epoch {epoch} {unit} - step {value} {unit}"), serialized.serialize())
    }
}

impl Metric for StepMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        Arc::new(self.about.name.to_owned())
    }

    fn attributes(&self) -> MetricAttributes {
        let About { unit, higher_is_better, .. } = self.about;
        NumericAttributes { unit: Some(unit.to_owned()), higher_is_better }.into()
    }

    fn update(&mut self, (): &(), event: &MetricMetadata) -> Result<SerializedEntry, TensorReadError> {
        let read = self.figures.of(event).and_then(|it| (self.read)(&it));
        self.value = read.map(|(value, _)| value);
        if let Some(step) = read.filter(|_| self.last != event.iteration) {
            self.last = event.iteration;
            self.epoch = Some(self.epoch.map_or(step, |epoch| self.over.add(epoch, step)));
        }
        Ok(self.entry(Numeric::value(self)))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.entry(self.epoch.map(|(value, _)| NumericEntry::Final(value))))
    }

    fn clear(&mut self) {
        (self.last, self.value, self.epoch) = (None, None, None);
    }
}

impl Numeric for StepMetric {
    fn value(&self) -> Option<NumericEntry> {
        self.value.map(NumericEntry::Value)
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.epoch.map(|(value, _)| NumericEntry::Value(value))
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.epoch.map_or(f64::NAN, |(value, _)| value))
    }
}
