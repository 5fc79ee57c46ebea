//! A small program of Burn's training: data, model, and what writes down what happens.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by tests that use parts of it, and may panic"
)]

pub mod quiet;

#[path = "../../../probe/tests/alone/mod.rs"]
mod alone;

use std::panic::resume_unwind;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::logger::TrainingProgressLogger;
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, LearningResult, SupervisedTraining, TrainOutput, TrainStep,
};
use plimsoll_probe::TrackingAllocator;
use plimsoll_train::{Batches, batches};

use quiet::Quiet;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Tests share the heap that is measured, and the generator that weights are drawn from.
pub(crate) fn alone() -> alone::Alone {
    alone::alone()
}

/// Values of a position.
pub const WIDTH: usize = 32;
const HIDDEN: usize = 256;
const CLASSES: usize = 4;

/// A sample: vectors, and the class of their sum.
#[derive(Clone, Debug)]
pub struct Item {
    pub vectors: Vec<[f32; WIDTH]>,
    pub class: usize,
}

/// Returns samples of so many vectors each, whose largest sum says their class.
pub fn items(lengths: &[usize]) -> Vec<Item> {
    let value = |seed: usize| ((seed * 7919 + 104_729) % 1009) as f32 / 1009.0 - 0.5;
    let item = |(at, length): (usize, &usize)| {
        let vector = |position| std::array::from_fn(|column| value((at * 31 + position) * WIDTH + column));
        let vectors: Vec<[f32; WIDTH]> = (0..*length).map(vector).collect();
        let sum = |class: usize| vectors.iter().map(|it| it[class]).sum::<f32>();
        let class = (0..CLASSES).max_by(|a, b| sum(*a).total_cmp(&sum(*b))).unwrap();
        Item { vectors, class }
    };
    lengths.iter().enumerate().map(item).collect()
}

/// A batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Padded with zeros, `[batch_size, longest, width]`.
    pub vectors: Tensor<3>,
    /// `[batch_size]`
    pub classes: Tensor<1, Int>,
}

/// Pads to the longest.
#[derive(Clone)]
pub struct Padded;

impl Batcher<Item, Batch> for Padded {
    fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
        let longest = items.iter().map(|it| it.vectors.len()).max().unwrap_or(0);
        let padded = |it: &Item| {
            let mut values = it.vectors.concat();
            values.resize(longest * WIDTH, 0.0);
            values
        };
        let values: Vec<f32> = items.iter().flat_map(padded).collect();
        let classes: Vec<i64> = items.iter().map(|it| i64::try_from(it.class).unwrap()).collect();
        Batch {
            vectors: Tensor::from_data(TensorData::new(values, [items.len(), longest, WIDTH]), device),
            classes: Tensor::from_data(TensorData::new(classes, [items.len()]), device),
        }
    }
}

/// How many of the next optimizer's steps run out of memory.
pub static N_FAILING: AtomicUsize = AtomicUsize::new(0);

/// The last of so many further optimizer's steps loses the weights, on a device that fails silently; none where it is zero.
pub static N_UNTIL_LOST: AtomicUsize = AtomicUsize::new(0);

/// Makes weights of what the device has no memory for.
struct Lose;

impl ModuleMapper for Lose {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| {
            let none = Tensor::<2>::zeros([1 << 15, 1 << 15], &it.device().inner());
            Tensor::from_inner(it.inner() + none.sum().reshape([1; D])).require_grad()
        })
    }
}

/// A model of which padding changes nothing.
#[derive(Module, Debug)]
pub struct Net {
    hidden: Linear,
    output: Linear,
}

impl Net {
    pub fn init(device: &Device) -> Self {
        device.seed(7);
        let layer = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        Self { hidden: layer(WIDTH, HIDDEN), output: layer(HIDDEN, CLASSES) }
    }

    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let [n_samples, _, _] = batch.vectors.dims();
        let sums = self.hidden.forward(batch.vectors).tanh().sum_dim(1).reshape([n_samples, HIDDEN]);
        let output = self.output.forward(sums);
        let loss = CrossEntropyLossConfig::new().init(&output.device()).forward(output.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, output, batch.classes)
    }

    /// Returns all weights.
    pub fn weights(&self) -> Vec<f32> {
        let of = |it: &Linear| it.weight.val().into_data().iter().collect::<Vec<f32>>();
        [of(&self.hidden), of(&self.output)].concat()
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let item = self.classify(batch);
        TrainOutput::new(self, item.loss.backward(), item)
    }

    fn optimize(self, optim: &mut ModuleOptimizer, rate: ModuleLearningRate, gradients: GradientsParams) -> Self {
        let has_room = N_FAILING.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_err();
        if !has_room {
            // Without a hook, whose backtrace takes memory.
            resume_unwind(Box::new("can't allocate buffer of size: 4096"));
        }
        let net = optim.step(rate, self, gradients);
        match N_UNTIL_LOST.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)) {
            Ok(1) => net.map(&mut Lose),
            _ => net,
        }
    }
}

impl InferenceStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Returns Burn's learner with a schedule, so that a step too many or too few shows.
pub fn learner(device: &Device) -> Learner<Net> {
    let schedule = ExponentialLrSchedulerConfig::new(1e-2, 0.99).init().unwrap();
    Learner::new(Net::init(device), AdamConfig::new().init(), schedule)
}

/// Returns a loader for validation, with a ragged batch.
pub fn valid_loader() -> Arc<dyn DataLoader<Batch>> {
    burn::data::dataloader::DataLoaderBuilder::new(Padded).batch_size(4).build(InMemDataset::new(items(&[3; 10])))
}

/// Returns data whose steps have 16 samples, the last of 40 a ragged one.
pub fn of_lengths(lengths: &[usize]) -> Batches<Item, Batch> {
    let batches = batches(InMemDataset::new(items(lengths)), Padded).cost(|it: &Item| it.vectors.len());
    batches.effective_batch(16).seed(3).build().unwrap()
}

/// Returns a training that shows nothing, and writes down what happens.
pub fn training(train: Arc<dyn DataLoader<Batch>>, happened: &Happened) -> SupervisedTraining<Net> {
    let folder = std::env::temp_dir().join(format!("plimsoll-learner-{}", std::process::id()));
    SupervisedTraining::new(folder, train, valid_loader())
        .renderer(Box::new(Quiet))
        .with_application_logger(None)
        .with_progress_logger(happened.clone())
}

/// Returns the text of the error that ended a training.
pub fn error(result: &LearningResult<Net>) -> String {
    result.error.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// What happened in a training, in order.
#[derive(Clone, Default)]
pub struct Happened(pub Arc<Mutex<Vec<String>>>);

impl Happened {
    pub fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl TrainingProgressLogger for Happened {
    fn start(&mut self, epochs: usize, first: usize, _items: Option<usize>, label: Option<&str>) {
        self.note(format!("start {first}..={epochs} {label:?}"));
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.note(format!("end epoch {epoch}"));
    }

    fn start_split(&mut self, split: &str, items: usize) {
        self.note(format!("start {split} of {items}"));
    }

    fn update_split(&mut self, items: usize) {
        self.note(format!("{items}"));
    }

    fn end_split(&mut self) {
        self.note("end split".to_owned());
    }

    fn end(&mut self) {
        self.note("end".to_owned());
    }

    fn log_event_training(&mut self, event: String) {
        self.note(event);
    }
}
