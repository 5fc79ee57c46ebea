//! Epoch means in which each sample counts as much as every other.

use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericEntry, SerializedEntry,
};

/// Weighs a metric's values by the samples of the batches that they belong to.
///
/// Burn's [`LossMetric`](burn::train::metric::LossMetric) counts a loss of shape `[1]` as one sample, whatever its batch: with
/// batches of several sizes the mean over an epoch is then no mean over samples, in training and in validation, and neither
/// are the decisions that early stopping and checkpoints take by it. The name stays that of the metric inside.
///
/// It is for metrics whose value of a batch is a mean over its samples, as that of a loss is. Accuracy and whatever else
/// counts rows of the model's output weighs by samples already. How many samples a batch has is taken from how far the
/// loader says it has come; of a loader that does not say so, each batch counts as one.
#[derive(Clone)]
pub struct BySamples<Me> {
    metric: Me,
    state: NumericMetricState,
    /// How far the loader had come at the last batch.
    processed: usize,
}

impl<Me: Metric + Numeric> BySamples<Me> {
    /// Weighs the values of this metric.
    pub fn new(metric: Me) -> Self {
        Self { metric, state: NumericMetricState::new(), processed: 0 }
    }

    fn format(&self) -> FormatOptions {
        let format = FormatOptions::new(self.name()).precision(2);
        match self.attributes() {
            MetricAttributes::Numeric(numeric) => match numeric.unit {
                Some(unit) => format.unit(&unit),
                None => format,
            },
            MetricAttributes::None => format,
        }
    }
}

impl<Me: Metric + Numeric> Metric for BySamples<Me> {
    type Input = Me::Input;

    fn name(&self) -> MetricName {
        self.metric.name()
    }

    fn description(&self) -> Option<String> {
        self.metric.description()
    }

    fn attributes(&self) -> MetricAttributes {
        self.metric.attributes()
    }

    fn update(&mut self, item: &Me::Input, event: &MetricMetadata) -> Result<SerializedEntry, TensorReadError> {
        let entry = self.metric.update(item, event)?;
        let now = event.progress.items_processed;
        let n_samples = now.checked_sub(self.processed).filter(|n| 0 < *n).unwrap_or(1);
        self.processed = now;
        let Some(value) = self.metric.value() else { return Ok(entry) };
        self.state.update(value.current(), n_samples);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.metric.clear();
        self.state.reset();
        self.processed = 0;
    }
}

impl<Me: Metric + Numeric> Numeric for BySamples<Me> {
    fn value(&self) -> Option<NumericEntry> {
        self.metric.value().map(|_| self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.metric.running_value().map(|_| self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}
