//! Trainings that have less than their steps need.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use burn::train::logger::MetricLogger;
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split};
use burn::train::metric::{AccuracyMetric, LossMetric, MetricDefinition, NumericEntry};
use burn::train::{LearningResult, SupervisedTraining, TrainingStrategy};
use common::{Batch, Happened, N_FAILING, Net, Padded, alone, error, items, learner, of_lengths, training};
use plimsoll_learner::{BySamples, StepMetrics, strategy};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_types::Bytes;

/// What metrics have said.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<Value>>>);

/// Name, epoch, split and value.
type Value = (String, usize, Split, NumericEntry);

impl Said {
    /// Returns the values of a metric in an epoch, the last of them for all of it.
    fn of(&self, name: &str, epoch: usize, split: &Split) -> Vec<f64> {
        let said = self.0.lock().unwrap();
        let is_it = |it: &&Value| it.0 == name && it.1 == epoch && it.2 == *split;
        said.iter().filter(is_it).map(|it| it.3.current()).collect()
    }

    fn train(&self, name: &str, epoch: usize) -> Vec<f64> {
        self.of(name, epoch, &Split::Train)
    }
}

impl MetricLogger for Said {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        for it in update.entries_numeric {
            let Some(value) = it.numeric_entry else { continue };
            let name = it.entry.metric_id;
            let name = format!("{name:?}").split('"').nth(1).unwrap().to_owned();
            self.0.lock().unwrap().push((name, epoch, split.clone(), value));
        }
    }

    fn read_numeric(&mut self, name: &str, epoch: usize, split: &Split) -> Result<Vec<NumericEntry>, String> {
        Ok(self.of(name, epoch, split).into_iter().map(NumericEntry::Value).collect())
    }

    fn log_metric_definition(&mut self, _definition: MetricDefinition) {}
    fn log_epoch_summary(&mut self, _summary: EpochSummary) {}
}

fn with_all(training: SupervisedTraining<Net>, metrics: &StepMetrics) -> SupervisedTraining<Net> {
    training
        .metric_train_numeric(metrics.effective_batch_size())
        .metric_train_numeric(metrics.micro_batch_size())
        .metric_train_numeric(metrics.padding())
        .metric_train_numeric(metrics.samples_per_second())
        .metric_train_numeric(metrics.tokens_per_second())
        .metric_train_numeric(metrics.predicted_peak())
        .metric_train_numeric(metrics.measured_peak())
        .metric_train_numeric(metrics.recoveries())
}

/// What is in use now, by this process.
fn in_use() -> Bytes {
    open(DeviceKind::Flex, None).unwrap().read().unwrap().in_use
}

/// Returns samples that are long enough for their tensors to be what a step needs.
fn long() -> Vec<usize> {
    vec![256; 40]
}

/// Returns the most that a training in whole steps has in use beyond what was there.
fn need_of_whole_steps(device: &Device) -> Bytes {
    let mut probe = open(DeviceKind::Flex, None).unwrap();
    let loader = DataLoaderBuilder::new(Padded).batch_size(16).build(InMemDataset::new(items(&long())));
    let learner = learner(device);
    let before = in_use();
    probe.reset_peak().unwrap();
    drop(training(loader, &Happened::default()).num_epochs(2).launch(learner));
    probe.read().unwrap().peak.saturating_sub(before)
}

/// Trains with so much beyond what is in use before the first step.
fn train_within(
    more: Bytes,
    device: &Device,
    said: &Said,
    n_epochs: usize,
    micro_batch: Option<u32>,
) -> (LearningResult<Net>, Vec<String>) {
    let (batches, learner, happened) = (of_lengths(&long()), learner(device), Happened::default());
    let builder = strategy(device).capacity(in_use().saturating_add(more));
    let builder = if let Some(n) = micro_batch { builder.micro_batch(n) } else { builder };
    let ours = builder.build().unwrap();
    let training = training(ours.loader(batches), &happened).with_metric_logger(said.clone());
    let training = with_all(training, &ours.metrics()).num_epochs(n_epochs);
    (training.with_training_strategy(TrainingStrategy::Custom(ours)).launch(learner), happened.all())
}

/// Checks that every sample was trained with once in each epoch.
#[track_caller]
fn check_no_sample_is_lost(events: &[String], n_epochs: usize) {
    let of_train = events.split(|it| it.starts_with("start train")).skip(1);
    let last =
        |epoch: &[String]| epoch.iter().take_while(|it| *it != "end split").filter_map(|it| it.parse().ok()).max();
    let last: Vec<Option<usize>> = of_train.map(last).collect();
    assert_eq!(last, vec![Some(40); n_epochs]);
}

#[test]
fn at_half_of_what_whole_steps_need_all_samples_are_trained_with_below_the_budget() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let need = need_of_whole_steps(&device);
    let said = Said::default();
    let (result, events) = train_within(Bytes(need.0 / 2), &device, &said, 3, None);
    assert_eq!(error(&result), "");
    check_no_sample_is_lost(&events, 3);
    for epoch in 1..=3 {
        let of = |name: &str| said.train(name, epoch);
        let peak = *of("Measured Peak").last().unwrap();
        assert!(0.0 < peak && peak <= 100.0, "{peak} % in epoch {epoch}");
        assert_eq!(of("Recoveries").last(), Some(&0.0));
        assert_eq!(of("Padding").last(), Some(&0.0));
        let mean = *of("Effective Batch Size").last().unwrap();
        assert!((mean - 40.0 / 3.0).abs() < 1e-9, "{mean}");
        let [samples, tokens] = ["Samples per Second", "Tokens per Second"].map(|name| *of(name).last().unwrap());
        assert!(0.0 < samples && (tokens / samples - 256.0).abs() < 1e-6, "{samples} {tokens}");
    }
    let last = *said.train("Micro-Batch Size", 3).last().unwrap();
    assert!(1.0 < last && last < 16.0, "{last}");
    let [predicted, measured] = ["Predicted Peak", "Measured Peak"].map(|name| *said.train(name, 3).last().unwrap());
    assert!(measured <= predicted && predicted <= 100.0, "{measured} {predicted}");
    assert!(said.of("Measured Peak", 1, &Split::Valid).is_empty());
}

#[test]
fn parts_that_do_not_fit_run_in_halves_and_metrics_see_each_sample_once() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let need = need_of_whole_steps(&device);
    let said = Said::default();
    let (result, events) = train_within(Bytes(need.0 / 2), &device, &said, 2, Some(16));
    assert_eq!(error(&result), "");
    check_no_sample_is_lost(&events, 2);
    // A step of eight samples that comes first shows that sixteen do not fit; else they run out of memory.
    let (recovered, sizes) = (*said.train("Recoveries", 1).last().unwrap(), said.train("Micro-Batch Size", 1));
    assert!(0.0 < recovered || 4 < sizes.len(), "16 fit at once: {sizes:?}");
    assert!(*said.train("Measured Peak", 2).last().unwrap() <= 100.0 / 0.9);
}

#[test]
fn a_foreign_batch_that_does_not_fit_ends_the_training_by_name() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let need = need_of_whole_steps(&device);
    let ours = strategy(&device).capacity(in_use().saturating_add(Bytes(need.0 / 2))).build().unwrap();
    let loader = DataLoaderBuilder::new(Padded).batch_size(16).build(InMemDataset::new(items(&long())));
    let learner = learner(&device);
    let before = learner.model().weights();
    let training = training(loader, &Happened::default()).with_training_strategy(TrainingStrategy::Custom(ours));
    let result = training.launch(learner);
    let text = error(&result);
    assert!(text.contains("epoch 1, step 1: a batch of 16 samples does not fit (capacity"), "{text}");
    assert!(text.contains("cannot run in halves"), "{text}");
    assert_eq!(result.model.weights(), before, "nothing has happened");
}

#[test]
fn steps_that_may_not_be_divided_run_whole_or_end_the_training() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let need = need_of_whole_steps(&device);
    for (more, expected) in [(need.0 / 2, "samples do not fit at once"), (need.0 * 3, "")] {
        let batches = of_lengths(&long());
        let builder = strategy(&device).capacity(in_use().saturating_add(Bytes(more))).in_one_part();
        let ours = builder.build().unwrap();
        let said = Said::default();
        let training = training(ours.loader(batches), &Happened::default()).with_metric_logger(said.clone());
        let training = with_all(training, &ours.metrics());
        let result = training.with_training_strategy(TrainingStrategy::Custom(ours)).launch(learner(&device));
        let text = error(&result);
        assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        let sizes = said.train("Micro-Batch Size", 1);
        assert!(!expected.is_empty() || sizes.contains(&16.0), "{sizes:?}");
    }
}

#[test]
fn what_does_not_fit_alone_ends_the_training_by_name() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let (result, _) = train_within(Bytes::kib(512), &device, &Said::default(), 1, None);
    let text = error(&result);
    assert!(text.contains("epoch 1, step 1") && text.contains("capacity"), "{text}");
}

#[test]
fn an_optimizer_that_runs_out_of_memory_is_taken_again_from_its_copy_or_ends_the_training() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let train = |n_failing, keeps, loader: Option<Arc<dyn DataLoader<Batch>>>| {
        let (builder, happened) = (strategy(&device).micro_batch(16), Happened::default());
        let ours = if keeps { builder.keeping_a_copy() } else { builder }.build().unwrap();
        let loader = loader.unwrap_or_else(|| ours.loader(of_lengths(&[3; 40])));
        let learner = learner(&device);
        N_FAILING.store(n_failing, Relaxed);
        let training = training(loader, &happened).with_training_strategy(TrainingStrategy::Custom(ours));
        let result = training.num_epochs(2).launch(learner);
        N_FAILING.store(0, Relaxed);
        (error(&result), result.model.weights(), happened.all())
    };
    let (text, undisturbed, events) = train(0, true, None);
    assert_eq!(text, "");
    // The schedule is taken back, too: rates and weights are those of a training in which nothing has happened.
    assert_eq!(train(1, true, None), (String::new(), undisturbed, events));
    let before = learner(&device).model().weights();
    let (text, weights, _) = train(2, true, None);
    assert!(text.contains("epoch 1, step 1: out of memory: the optimizer's step"), "{text}");
    assert_eq!(weights, before);
    let (text, _, _) = train(1, false, None);
    assert!(text.contains("epoch 1, step 1: the weights were lost"), "{text}");
    // A batch of another loader is used up.
    let whole = DataLoaderBuilder::new(Padded).batch_size(16).build(InMemDataset::new(items(&[3; 40])));
    let (text, weights, _) = train(1, true, Some(whole));
    assert!(text.contains("epoch 1, step 1: out of memory: the optimizer's step"), "{text}");
    assert_eq!(weights, before);
}

#[test]
fn losses_weigh_by_samples_in_training_and_in_validation() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let said = Said::default();
    let ours = strategy(&device).micro_batch(7).build().unwrap();
    let training = training(ours.loader(of_lengths(&[3; 40])), &Happened::default()).with_metric_logger(said.clone());
    let result = training
        .metrics((AccuracyMetric::new(), BySamples::new(LossMetric::new())))
        .num_epochs(2)
        .with_training_strategy(TrainingStrategy::Custom(ours))
        .launch(learner(&device));
    assert_eq!(error(&result), "");
    // In training two steps of 16 samples and one of 8, in any order, in parts of 7; in validation 4, 4 and 2.
    let (whole, rest): (&[f64], &[f64]) = (&[7.0, 7.0, 2.0], &[7.0, 1.0]);
    let orders = [[whole, whole, rest].concat(), [whole, rest, whole].concat(), [rest, whole, whole].concat()];
    for (split, orders) in [(Split::Train, &orders[..]), (Split::Valid, &[vec![4.0, 4.0, 2.0]][..])] {
        let losses = said.of("Loss", 2, &split);
        let (of_batches, mean) = (&losses[..losses.len() - 1], losses[losses.len() - 1]);
        let of = |sizes: &[f64]| {
            let sum: f64 = of_batches.iter().zip(sizes).map(|(loss, n)| loss * n).sum();
            sum / sizes.iter().sum::<f64>()
        };
        assert!(orders.iter().all(|sizes| of_batches.len() == sizes.len()), "{split:?} {losses:?}");
        let unweighted = of(&vec![1.0; of_batches.len()]);
        assert!(orders.iter().any(|sizes| (of(sizes) - mean).abs() < 1e-9), "{split:?} {losses:?}");
        assert!((unweighted - mean).abs() > 1e-6, "{split:?}: nothing shows the weights");
    }
}
