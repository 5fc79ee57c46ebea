//! What a training costs beside Burn's own strategy for one device: the same samples in one part, in turn, in one process.
//!
//! `cargo bench -p plimsoll-learner --bench overhead` prints medians, the ratio of each pair's times, and the most memory of
//! each.

#![expect(clippy::print_stdout, reason = "a benchmark shows what it measures")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use burn::train::logger::MetricLogger;
use burn::train::metric::MetricDefinition;
use burn::train::metric::NumericEntry;
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::{ExecutionStrategy, TrainingStrategy};
use common::{Happened, Padded, items, learner, training};
use plimsoll_learner::strategy;
use plimsoll_probe::{DeviceKind, open};
use plimsoll_train::batches;
use plimsoll_types::{Bytes, Fraction};

const N_STEPS: usize = 30;
const LENGTH: usize = 64;
const BATCHES: [usize; 3] = [16, 64, 256];
const N_PAIRS: usize = 21;
/// The first pairs fill caches.
const N_FIRST: usize = 2;
const CAPACITY: Bytes = Bytes::gib(4);

/// Keeps the highest value of the only metric.
#[derive(Clone, Default)]
struct Highest(Arc<Mutex<f64>>);

impl MetricLogger for Highest {
    fn log(&mut self, update: MetricsUpdate, _epoch: usize, split: &Split) {
        let values = update.entries_numeric.into_iter().filter_map(|it| it.numeric_entry);
        let highest = values.filter(|_| *split == Split::Train).map(|it| it.current()).fold(0.0, f64::max);
        let mut so_far = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *so_far = so_far.max(highest);
    }

    fn read_numeric(&mut self, _: &str, _: usize, _: &Split) -> Result<Vec<NumericEntry>, String> {
        Ok(Vec::new())
    }

    fn log_metric_definition(&mut self, _: MetricDefinition) {}
    fn log_epoch_summary(&mut self, _: EpochSummary) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    BATCHES.into_iter().try_for_each(compare)
}

/// Runs trainings of one epoch in turn.
fn compare(batch: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let lengths = vec![LENGTH; batch * N_STEPS];
    let (mut own, mut adopted) = (Vec::new(), Vec::new());
    let (mut own_peak, mut adopted_peak) = (Bytes::ZERO, Bytes::ZERO);
    let mut probe = open(DeviceKind::Flex, None)?;
    let mut bare_peak = Bytes::ZERO;
    // In the last one, no step is read ahead.
    for turn in 0..=2 * (N_FIRST + N_PAIRS) {
        let reads_ahead = turn < 2 * (N_FIRST + N_PAIRS);
        let (data, learner, highest) = (InMemDataset::new(items(&lengths)), learner(&device), Highest::default());
        // Each is the first of its pair as often as the other.
        if reads_ahead && matches!(turn % 4, 0 | 3) {
            let loader = DataLoaderBuilder::new(Padded).batch_size(batch).build(data);
            let training = training(loader, &Happened::default()).with_metric_logger(highest).num_epochs(1);
            probe.reset_peak()?;
            let (before, start) = (probe.read()?.in_use, Instant::now());
            let training = training
                .with_training_strategy(TrainingStrategy::Default(ExecutionStrategy::SingleDevice(device.clone())));
            drop(training.launch(learner));
            own.push(start.elapsed().as_secs_f64());
            own_peak = own_peak.max(probe.read()?.peak.saturating_sub(before));
        } else {
            let builder = strategy(&device).micro_batch(u32::try_from(batch)?).capacity(CAPACITY).budget(1.0);
            let ours = builder.build()?;
            let batches = batches(data, Padded).effective_batch(batch);
            let batches = if reads_ahead { batches } else { batches.read_ahead(Bytes::ZERO) };
            let loader = ours.loader(batches.build()?);
            let training = training(loader, &Happened::default()).with_metric_logger(highest.clone()).num_epochs(1);
            let training = training.metric_train_numeric(ours.metrics().measured_peak());
            let (before, start) = (probe.read()?.in_use, Instant::now());
            drop(training.with_training_strategy(TrainingStrategy::Custom(ours)).launch(learner));
            let seconds = start.elapsed().as_secs_f64();
            let share = *highest.0.lock().unwrap_or_else(PoisonError::into_inner) / 100.0;
            // Each step begins a mark of its own.
            let peak = CAPACITY.scale(Fraction::try_new(share)?);
            if reads_ahead {
                adopted.push(seconds);
                adopted_peak = adopted_peak.max(peak.saturating_sub(before));
            } else {
                bare_peak = peak.saturating_sub(before);
            }
        }
    }
    let [own, adopted] = [own, adopted].map(|it| it[N_FIRST..].to_vec());
    let ratios: Vec<_> = adopted.iter().zip(&own).map(|(adopted, own)| adopted / own).collect();
    let [own, adopted] = [own, adopted].map(|it| median(it) * 1e3 / N_STEPS as f64);
    println!(
        "batches of {batch}: burn {own:.3} ms a step and {own_peak} beside the model, plimsoll {adopted:.3} ms and \
         {adopted_peak}, {bare_peak} without reading ahead, median of the ratios of {N_PAIRS} pairs {:.4}",
        median(ratios)
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
