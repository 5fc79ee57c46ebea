//! What is Burn's own stays as it is: weights, events and their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Batch, Happened, Item, Net, Padded, alone, items, learner, of_lengths, training};
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder, DataLoaderIterator, Progress};
use burn::data::dataset::{DatasetError, InMemDataset};
use burn::tensor::Device;
use burn::train::checkpoint::{CheckpointingAction, CheckpointingStrategy};
use burn::train::metric::store::{Aggregate, EventStoreClient, Split};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{EarlyStoppingStrategy, ExecutionStrategy, LearningResult, SupervisedTraining, TrainingStrategy};
use plimsoll_learner::{GuardedStrategy, StrategyBuilder, strategy};
use plimsoll_train::{Batches, Epoch};

/// Notes when it is asked and what it can read by then.
#[derive(Clone)]
struct Asked {
    by: &'static str,
    happened: Happened,
    stops_at: usize,
}

impl Asked {
    fn note(&self, epoch: usize, store: &EventStoreClient) {
        let read = |split: &Split| store.find_metric("Loss", epoch, Aggregate::Mean, split).map(f64::to_bits);
        let losses = [Split::Train, Split::Valid].map(|it| read(&it));
        self.happened.note(format!("{} {epoch} {losses:?}", self.by));
    }
}

impl CheckpointingStrategy for Asked {
    fn checkpointing(&mut self, epoch: usize, store: &EventStoreClient) -> Vec<CheckpointingAction> {
        self.note(epoch, store);
        vec![CheckpointingAction::Save]
    }
}

impl EarlyStoppingStrategy for Asked {
    fn should_stop(&mut self, epoch: usize, store: &EventStoreClient) -> bool {
        self.note(epoch, store);
        self.stops_at <= epoch
    }
}

/// Trains five epochs at most, which end early after the third.
fn trained(
    loader: Arc<dyn DataLoader<Batch>>,
    strategy: TrainingStrategy<Net>,
    device: &Device,
) -> (LearningResult<Net>, Vec<String>) {
    let happened = Happened::default();
    let asked = |by| Asked { by, happened: happened.clone(), stops_at: 3 };
    let folder = tempfile::tempdir().unwrap();
    let result = SupervisedTraining::new(folder.path(), loader, crate::common::valid_loader())
        .renderer(Box::new(crate::common::quiet::Quiet))
        .with_application_logger(None)
        .with_progress_logger(happened.clone())
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .with_default_checkpointers()
        .with_checkpointing_strategy(asked("checkpoint"))
        .early_stopping(asked("stop"))
        .num_epochs(5)
        .label("twice")
        .summary()
        .with_training_strategy(strategy)
        .launch(learner(device));
    assert!(result.error.is_none() && result.interrupted.is_none(), "{}", crate::common::error(&result));
    (result, happened.all())
}

fn bits(result: &LearningResult<Net>) -> Vec<u32> {
    result.model.weights().iter().map(|it| it.to_bits()).collect()
}

fn single(device: &Device) -> TrainingStrategy<Net> {
    TrainingStrategy::Default(ExecutionStrategy::SingleDevice(device.clone()))
}

fn guarded(device: &Device, micro_batch: u32) -> Arc<GuardedStrategy<Batch>> {
    strategy(device).micro_batch(micro_batch).build().unwrap()
}

/// Burn's own kind of loader, of whole steps in the order of their epochs.
struct Steps {
    batches: Batches<Item, Batch>,
    epoch: AtomicUsize,
    device: Device,
}

impl Steps {
    fn of(batches: Batches<Item, Batch>) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self { batches, epoch: AtomicUsize::new(0), device: Device::flex() })
    }
}

impl DataLoader<Batch> for Steps {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let epoch = self.batches.epoch(self.epoch.fetch_add(1, Ordering::Relaxed));
        Box::new(OfEpoch { loader: self, epoch, processed: 0 })
    }

    fn num_items(&self) -> usize {
        self.batches.n_samples()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self { batches: self.batches.clone(), epoch: AtomicUsize::new(0), device: device.clone() })
    }

    fn slice(&self, _start: usize, _end: usize) -> Arc<dyn DataLoader<Batch>> {
        unreachable!("there is one device")
    }
}

struct OfEpoch<'a> {
    loader: &'a Steps,
    epoch: Epoch<Item>,
    processed: usize,
}

impl Iterator for OfEpoch<'_> {
    type Item = Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.epoch.next()?.unwrap();
        self.processed += step.len();
        Some(Ok(Padded.batch(step.items, &self.loader.device)))
    }
}

impl DataLoaderIterator<Batch> for OfEpoch<'_> {
    fn progress(&self) -> Progress {
        Progress::new(self.processed, self.loader.num_items(), Some("items".to_owned()))
    }
}

#[test]
fn with_a_foreign_loader_weights_losses_and_events_are_burns_own_to_the_bit() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let loader = || {
        let loader = DataLoaderBuilder::new(Padded).batch_size(16).shuffle(5);
        loader.build(InMemDataset::new(items(&[3; 40])))
    };
    let (own, own_events) = trained(loader(), single(&device), &device);
    let ours = guarded(&device, 1);
    let (adopted, events) = trained(loader(), TrainingStrategy::Custom(ours), &device);
    assert_eq!(own_events, events);
    assert_eq!(bits(&own), bits(&adopted));
    // Three epochs, each of three steps and three batches of validation, and both were asked.
    assert_eq!(events.iter().filter(|it| *it == "Iteration").count(), 18, "{events:?}");
    assert!(events.iter().any(|it| it.starts_with("checkpoint 3 [Some")), "{events:?}");
    assert!(!events.iter().any(|it| it.starts_with("end epoch 4")), "{events:?}");
}

#[test]
fn steps_in_one_part_are_burns_own_to_the_bit() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let batches = of_lengths(&[3; 40]);
    let (own, own_events) = trained(Steps::of(batches.clone()), single(&device), &device);
    let ours = guarded(&device, 16);
    let (adopted, events) = trained(ours.loader(batches), TrainingStrategy::Custom(ours), &device);
    assert_eq!(own_events, events);
    assert_eq!(bits(&own), bits(&adopted));
}

#[test]
fn steps_in_parts_of_any_size_train_alike_and_step_the_schedule_once() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let lengths: Vec<usize> = (0..40).map(|at| 1 + at % 7).collect();
    let weights = |micro_batch: u32| {
        let ours = guarded(&device, micro_batch);
        let (result, events) = trained(ours.loader(of_lengths(&lengths)), TrainingStrategy::Custom(ours), &device);
        (result.model.weights(), events.iter().filter(|it| *it == "Iteration").count())
    };
    let (whole, _) = weights(16);
    for (micro_batch, n_parts) in [(1, 40), (5, 4 + 4 + 2), (15, 2 + 2 + 1)] {
        let (parts, n_events) = weights(micro_batch);
        let furthest = whole.iter().zip(&parts).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Each of nine steps moves a weight by about the rate, 0.01.
        assert!(furthest < 1e-4, "{furthest} in parts of {micro_batch}");
        assert_eq!(n_events, 3 * (n_parts + 3), "an event for each part, in parts of {micro_batch}");
    }
}

#[test]
fn a_training_that_goes_on_from_a_checkpoint_is_the_one_that_never_stopped() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let train = |epochs: usize, from: Option<usize>| {
        let ours = strategy(&device).micro_batch(5).build().unwrap();
        let happened = Happened::default();
        let training =
            SupervisedTraining::new(folder.path(), ours.loader(of_lengths(&[3; 40])), crate::common::valid_loader())
                .renderer(Box::new(crate::common::quiet::Quiet))
                .with_application_logger(None)
                .with_progress_logger(happened.clone())
                .metrics((AccuracyMetric::new(), LossMetric::new()))
                .with_default_checkpointers()
                .num_epochs(epochs)
                .with_training_strategy(TrainingStrategy::Custom(ours));
        let training = if let Some(epoch) = from { training.checkpoint(epoch) } else { training };
        (bits(&training.launch(learner(&device))), happened.all())
    };
    let (straight, _) = train(4, None);
    let (_, _) = train(2, None);
    let (resumed, events) = train(4, Some(2));
    assert!(events.iter().any(|it| it == "end epoch 3") && !events.iter().any(|it| it == "end epoch 2"), "{events:?}");
    assert_eq!(straight, resumed);
}

#[test]
fn with_gradient_checkpointing_weights_are_burns_own() {
    let _alone = alone();
    let device = Device::flex().autodiff().gradient_checkpointing();
    let train = |training: SupervisedTraining<Net>| bits(&training.launch(learner(&device)));
    let own = training(Steps::of(of_lengths(&[3; 40])), &Happened::default()).gradient_checkpointing();
    let own = train(own.with_training_strategy(single(&device)));
    let ours = strategy(&Device::flex()).micro_batch(16).gradient_checkpointing().build().unwrap();
    let adopted = training(ours.loader(of_lengths(&[3; 40])), &Happened::default());
    assert_eq!(own, train(adopted.with_training_strategy(TrainingStrategy::Custom(ours))));
}

#[test]
fn seeds_and_bounds_of_the_norm_change_only_what_they_are_for() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let weights = |builder: StrategyBuilder| {
        let ours = builder.micro_batch(16).build().unwrap();
        let training = training(ours.loader(of_lengths(&[3; 40])), &Happened::default());
        bits(&training.with_training_strategy(TrainingStrategy::Custom(ours)).launch(learner(&device)))
    };
    let plain = weights(strategy(&device));
    // Nothing is random in this model, and no gradient is as large.
    assert_eq!(plain, weights(strategy(&device).seed(3)));
    assert_eq!(plain, weights(strategy(&device).max_norm(1e9)));
    assert_ne!(plain, weights(strategy(&device).max_norm(1e-7)));
}
