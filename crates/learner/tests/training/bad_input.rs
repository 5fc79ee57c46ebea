//! Trainings that go wrong say what and where.

use std::sync::Arc;

use crate::common::{Batch, Happened, Item, Net, Padded, alone, error, items, learner, of_lengths, training};
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, DatasetError, InMemDataset};
use burn::tensor::{Device, ExecutionError, TensorReadError};
use burn::train::metric::{Metric, MetricMetadata, MetricName, SerializedEntry};
use burn::train::{Interrupter, LearningResult, TrainingError, TrainingStrategy};
use plimsoll_learner::{GuardedStrategy, LearnerError, StrategyBuilder, strategy};
use plimsoll_train::batches;

type Loader = Arc<dyn DataLoader<Batch>>;

fn device() -> Device {
    Device::flex().autodiff()
}

fn guarded() -> Arc<GuardedStrategy<Batch>> {
    strategy(&device()).micro_batch(8).build().unwrap()
}

fn launched(ours: Arc<GuardedStrategy<Batch>>, loader: Loader) -> (LearningResult<Net>, Vec<String>) {
    let happened = Happened::default();
    let training = training(loader, &happened).num_epochs(2).with_training_strategy(TrainingStrategy::Custom(ours));
    (training.launch(learner(&device())), happened.all())
}

/// Checks that a training ends with an error that says this, before its first epoch is over.
#[track_caller]
fn check((result, events): &(LearningResult<Net>, Vec<String>), parts: &[&str]) {
    let text = error(result);
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert!(result.interrupted.is_none() && !events.iter().any(|it| it == "end epoch 1"), "{events:?}");
    assert_eq!(events.last().unwrap(), "end");
}

fn of_batcher(batcher: impl Batcher<Item, Batch> + 'static) -> (LearningResult<Net>, Vec<String>) {
    let steps = batches(InMemDataset::new(items(&[3; 40])), batcher).effective_batch(16).build().unwrap();
    let ours = guarded();
    launched(Arc::clone(&ours), ours.loader(steps))
}

struct Fails(&'static str);

impl Batcher<Item, Batch> for Fails {
    fn batch(&self, mut items: Vec<Item>, device: &Device) -> Batch {
        assert!(self.0.is_empty(), "{}", self.0);
        items.clear();
        Padded.batch(items, device)
    }
}

#[test]
fn a_batcher_that_panics_is_named_with_its_step() {
    let _alone = alone();
    let launched = of_batcher(Fails("no class of this name"));
    check(&launched, &["epoch 1, step 1", "batch 8 samples", "the batcher panicked", "no class of this name"]);
    let Some(TrainingError::Dataset(source)) = launched.0.error.as_deref() else { panic!("no error of the data") };
    let source = std::error::Error::source(source).unwrap().downcast_ref().unwrap();
    assert!(matches!(source, LearnerError::Batch { .. }));
}

#[test]
fn an_empty_batch_is_named_with_its_step() {
    let _alone = alone();
    check(&of_batcher(Fails("")), &["epoch 1, step 1: the model panicked", "targets"]);
    let batches = batches(InMemDataset::new(items(&[3; 40])), Fails("")).effective_batch(16);
    let counted = batches.rows(|it: &Batch| it.classes.dims()[0]).build().unwrap();
    let ours = guarded();
    let launched = launched(Arc::clone(&ours), ours.loader(counted));
    check(&launched, &["epoch 1, step 1: batch 8 samples: the batcher has made a batch of 0"]);
}

#[test]
fn a_batcher_that_lacks_memory_gets_fewer_samples() {
    struct Greedy;

    impl Batcher<Item, Batch> for Greedy {
        fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
            assert!(items.len() <= 3, "out of device memory allocating 1234 bytes");
            Padded.batch(items, device)
        }
    }

    let _alone = alone();
    let (result, events) = of_batcher(Greedy);
    assert_eq!(error(&result), "");
    assert!(events.iter().any(|it| it == "end epoch 2"), "{events:?}");
}

#[test]
fn a_sample_that_cannot_be_read_is_named_with_its_step() {
    struct Holed(InMemDataset<Item>);

    impl Dataset<Item> for Holed {
        fn get(&self, index: usize) -> Result<Item, DatasetError> {
            let missing = || DatasetError::new(std::io::Error::other("the file is gone"));
            if index == 33 { Err(missing()) } else { self.0.get(index) }
        }

        fn len(&self) -> usize {
            self.0.len()
        }
    }

    let _alone = alone();
    let holed = Holed(InMemDataset::new(items(&[3; 40])));
    let batches = batches(holed, Padded).effective_batch(16).build().unwrap();
    let ours = guarded();
    check(&launched(Arc::clone(&ours), ours.loader(batches)), &["epoch 1, step", "sample 33", "the file is gone"]);
}

#[test]
fn a_loader_of_nothing_is_refused() {
    let _alone = alone();
    let nothing: Loader = DataLoaderBuilder::new(Padded).batch_size(4).build(InMemDataset::new(Vec::new()));
    check(&launched(guarded(), nothing), &["the loader for training has no items"]);
}

#[test]
fn accumulation_that_is_asked_for_elsewhere_is_refused() {
    let _alone = alone();
    let (ours, happened) = (guarded(), Happened::default());
    let training = training(ours.loader(of_lengths(&[3; 40])), &happened).grads_accumulation(4);
    let training = training.with_training_strategy(TrainingStrategy::Custom(ours));
    let launched = (training.launch(learner(&device())), happened.all());
    check(&launched, &["`grads_accumulation(4)`", "ask the loader for 4 times the samples per step"]);
}

/// A metric that does something in its third update.
#[derive(Clone)]
struct Third {
    n_updates: usize,
    act: fn(&Interrupter) -> Result<(), TensorReadError>,
    interrupter: Interrupter,
}

impl Metric for Third {
    type Input = ();

    fn name(&self) -> MetricName {
        Arc::new("Broken".to_owned())
    }

    fn update(&mut self, (): &(), _event: &MetricMetadata) -> Result<SerializedEntry, TensorReadError> {
        self.n_updates += 1;
        if self.n_updates == 3 {
            (self.act)(&self.interrupter)?;
        }
        Ok(SerializedEntry::new("fine".to_owned(), "1".to_owned()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(SerializedEntry::new("fine".to_owned(), "1".to_owned()))
    }

    fn clear(&mut self) {}
}

fn with_metric(act: fn(&Interrupter) -> Result<(), TensorReadError>) -> (LearningResult<Net>, Vec<String>) {
    let (ours, happened) = (guarded(), Happened::default());
    let training = training(ours.loader(of_lengths(&[3; 400])), &happened);
    let metric = Third { n_updates: 0, act, interrupter: training.interrupter() };
    let training = training.metric_train(metric).with_training_strategy(TrainingStrategy::Custom(ours));
    (training.launch(learner(&device())), happened.all())
}

#[test]
fn a_metric_that_fails_is_named_and_ends_the_training() {
    let _alone = alone();
    let fails = |_: &Interrupter| Err(ExecutionError::with_context("it could not read").into());
    check(&with_metric(fails), &["train/Broken", "it could not read"]);
}

#[test]
fn a_training_that_is_interrupted_ends_after_its_step_and_says_why() {
    let _alone = alone();
    let stops = |interrupter: &Interrupter| {
        interrupter.stop(Some("enough"));
        Ok(())
    };
    let (result, events) = with_metric(stops);
    assert_eq!(result.interrupted.unwrap().reason.as_deref(), Some("enough"));
    assert!(result.error.is_none());
    // Two parts a step: the third event belongs to the second of 25 steps, and at most two steps are ahead.
    let n_events = events.iter().filter(|it| *it == "Iteration").count();
    assert!((4..=8).contains(&n_events) && n_events % 2 == 0, "{events:?}");
    assert_eq!(events[events.len() - 2..], ["end split", "end"]);
}

#[test]
fn a_model_that_panics_is_named_with_its_step() {
    struct Narrow;

    impl Batcher<Item, Batch> for Narrow {
        fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
            let batch = Padded.batch(items, device);
            Batch { vectors: batch.vectors.narrow(2, 0, 5), ..batch }
        }
    }

    let _alone = alone();
    check(&of_batcher(Narrow), &["epoch 1, step 1: the model panicked"]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |builder: StrategyBuilder, text: &str| {
        let error = builder.build::<Batch>().err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    };
    let builder = || strategy(&device());
    for budget in [0.0, 1.5, f64::NAN] {
        refused(builder().budget(budget), "`budget` of");
    }
    refused(builder().micro_batch(0), "`micro_batch` of 0: it is a number of samples from 1");
    refused(builder().micro_batch(4).in_one_part(), "left out beside `in_one_part`");
    refused(builder().max_norm(f64::INFINITY), "`max_norm` of inf: it is a finite number above 0");
}
