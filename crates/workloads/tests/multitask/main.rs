//! Tasks on the project's own drawings.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod data;
#[path = "../common/elsewhere.rs"]
mod elsewhere;
#[path = "../common/held_out.rs"]
mod held_out;
mod own_sizes;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use plimsoll_probe::TrackingAllocator;
use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Draw, Job, Part, Source};
use plimsoll_types::{Extent, StepShape};
use plimsoll_workloads::Room;
use plimsoll_workloads::multitask::{
    FusionConfig, FusionModel, Multitask, MultitaskConfig, SampleBuffer, Samples, SamplesConfig,
};

use elsewhere::check_stand_ins;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const WEIGHTS: [f32; 3] = [0.5, 1.0, 1.5];

fn samples_config(store: &Path) -> SamplesConfig {
    let folder = plimsoll_fixtures::dir().join("multitask");
    SamplesConfig { image_size: 16, max_words: WORDS, ..SamplesConfig::new(folder, Room::boundless(store)) }
}

fn fixtures() -> Samples {
    let store = tempfile::tempdir().unwrap();
    Samples::read(&samples_config(store.path())).unwrap()
}

fn job() -> Multitask {
    let model = FusionConfig { channels: 4, features: 16, ..FusionConfig::default() };
    let samples = Arc::new(fixtures());
    Multitask::new(MultitaskConfig { model, ..MultitaskConfig::new(5) }, samples)
}

fn model(job: &Multitask, device: &Device) -> FusionModel {
    device.seed(11);
    job.init(device)
}

/// The most words of a text.
const WORDS: u32 = 8;

/// Collates samples of epoch 2, each part with an extent of its own.
fn buffer(job: &Multitask, parts: &[Part]) -> SampleBuffer {
    let source = job.source();
    let draw = Draw { epoch: 2, parts: parts.to_vec() };
    let items: Vec<_> = draw.ids().map(|id| source.read(2, id).unwrap()).collect();
    let mut buffer = source.buffer(StepShape::of(u32::try_from(items.len()).unwrap(), extent(7, WORDS)));
    source.collate(&draw, &items, &mut buffer).unwrap();
    buffer
}

fn extent(images: u32, words: u32) -> Extent {
    Extent::try_new(&[images, words]).unwrap()
}

fn part(ids: &[u64], images: u32, words: u32) -> Part {
    Part::new(ids.to_vec(), extent(images, words))
}

/// What one optimizer step would see.
struct Step {
    gradients: BTreeMap<ParamId, (Vec<usize>, Vec<f64>)>,
    of_tasks: Vec<f64>,
}

/// Runs parts in micro-batches of at most this size.
fn step(job: &Multitask, model: &FusionModel, device: &Device, parts: &[Part], most: usize) -> Step {
    let (buffer, total) = (buffer(job, parts), parts.iter().map(|it| it.ids.len()).sum::<usize>());
    let mut accumulator = WeightedAccumulator::new(total as u64);
    let (mut of_tasks, mut start) = (vec![0.0; 3], 0);
    for part in parts {
        for ids in part.ids.chunks(most) {
            let loss = job.mean_loss(model, job.batch(&buffer, start..start + ids.len(), device), &WEIGHTS);
            let gradients = accumulator.backward(model, &loss.mean, ids.len() as u64);
            accumulator.add(model, gradients);
            let share = ids.len() as f64 / total as f64;
            let added = loss.of_tasks.unwrap().into_data();
            of_tasks.iter_mut().zip(added.iter::<f64>()).for_each(|(sum, it)| *sum += share * it);
            start += ids.len();
        }
    }
    Step { gradients: gradients_of(model, &accumulator.finish()), of_tasks }
}

/// The shape and the values of each parameter's gradient.
fn gradients_of(model: &FusionModel, gradients: &GradientsParams) -> BTreeMap<ParamId, (Vec<usize>, Vec<f64>)> {
    let mut values = Values { gradients, of: BTreeMap::new() };
    model.visit(&mut values);
    values.of
}

/// The values of all gradients.
fn values_of(model: &FusionModel, gradients: &GradientsParams) -> Vec<f64> {
    gradients_of(model, gradients).into_values().flat_map(|it| it.1).collect()
}

struct Values<'a> {
    gradients: &'a GradientsParams,
    of: BTreeMap<ParamId, (Vec<usize>, Vec<f64>)>,
}

impl ModuleVisitor for Values<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            let values = gradient.clone().into_data().iter::<f64>().collect();
            self.of.insert(param.id, (gradient.dims().to_vec(), values));
        }
    }
}

fn norm<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    values.map(|it| it * it).sum::<f64>().sqrt()
}

/// The norm of the difference over the norm.
#[track_caller]
fn relative<'a>(a: impl Iterator<Item = &'a f64> + Clone, b: impl Iterator<Item = &'a f64>) -> f64 {
    let size = norm(a.clone());
    assert!(size > 1e-3, "a gradient of nothing proves nothing");
    let difference: Vec<_> = a.zip(b).map(|(a, b)| a - b).collect();
    norm(difference.iter()) / size
}

/// Ids of the first samples of each task, by their number of images.
fn ids(job: &Multitask, of_each: [usize; 3]) -> Vec<(u64, u32)> {
    let samples = fixtures();
    assert_eq!(samples.train.len() as u64, job.source().n_samples());
    let mut ids = Vec::new();
    for (task, n) in (0..).zip(of_each) {
        let of_task = samples.train.iter().zip(0..).filter(|(it, _)| it.task == task);
        ids.extend(of_task.map(|(it, id)| (id, it.n_images())).take(n));
    }
    ids.sort_by_key(|(id, length)| (*length, *id));
    ids
}

#[test]
fn a_rank_draws_the_images_of_the_samples_that_it_runs() {
    let (job, device) = (job(), Device::flex());
    let parts = vec![part(&[0, 3, 6], 7, WORDS), part(&[1, 2, 4, 5, 7], 7, WORDS)];
    let (draw, largest) = (Draw { epoch: 2, parts }, StepShape::of(8, extent(7, WORDS)));
    check_stand_ins(&job, &model(&job, &device), &draw, &(2..5), largest);
}

#[test]
fn every_split_of_a_step_has_the_gradients_and_losses_of_the_undivided_one() {
    let device = Device::flex().autodiff();
    let job = job();
    let model = model(&job, &device);
    let ids = ids(&job, [5, 3, 5]);
    let (all, longest): (Vec<_>, _) = (ids.iter().map(|it| it.0).collect(), ids[12].1);
    let whole = step(&job, &model, &device, &[part(&all, longest, WORDS)], 13);
    let short = ids.partition_point(|it| it.1 <= 2);
    let middle = ids.partition_point(|it| it.1 <= 4);
    // No text has more than 5 words.
    let edges = [part(&all[..short], 2, 5), part(&all[short..middle], 4, 7), part(&all[middle..], 7, 6)];
    let padded = [part(&all[..middle], 5, 6), part(&all[middle..], longest, 5)];
    for (parts, most) in [(&edges[..], 13), (&edges, 2), (&edges, 1), (&padded, 3)] {
        let split = step(&job, &model, &device, parts, most);
        assert!(whole.gradients.keys().eq(split.gradients.keys()));
        let values = |step: &Step| step.gradients.values().flat_map(|it| it.1.clone()).collect::<Vec<_>>();
        let difference = relative(values(&whole).iter(), values(&split).iter());
        assert!(difference < 1e-5, "{most}: gradients differ by {difference:e}");
        for probe in job.task_probes(&model) {
            let difference = relative(whole.gradients[&probe].1.iter(), split.gradients[&probe].1.iter());
            assert!(difference < 1e-5, "{most}: a task's gradient differs by {difference:e}");
        }
        let difference = relative(whole.of_tasks.iter(), split.of_tasks.iter());
        assert!(difference < 1e-5, "{most}: losses differ by {difference:e}");
    }
}

#[test]
fn a_probe_has_the_gradient_of_its_task_at_the_last_shared_layer() {
    let device = Device::flex().autodiff();
    let job = job();
    let model = model(&job, &device);
    let ids = ids(&job, [4, 3, 4]);
    let all: Vec<_> = ids.iter().map(|it| it.0).collect();
    let mixed = step(&job, &model, &device, &[part(&all, 7, WORDS)], 11);
    let probes = job.task_probes(&model);
    let dims = &mixed.gradients[&probes[0]].0;
    let shared: Vec<_> = mixed.gradients.iter().filter(|(id, it)| it.0 == *dims && !probes.contains(id)).collect();
    assert_eq!(shared.len(), 1, "the shape of the last shared layer is its own");
    for (task, probe) in probes.iter().enumerate() {
        let mut of_each = [0; 3];
        of_each[task] = if task == 1 { 3 } else { 4 };
        let alone: Vec<_> = self::ids(&job, of_each).iter().map(|it| it.0).collect();
        let alone = step(&job, &model, &device, &[part(&alone, 7, WORDS)], 11);
        // Alone, the mean over the tasks is the task's own loss.
        let expected: Vec<_> = alone.gradients[shared[0].0].1.iter().map(|it| it / 3.0).collect();
        let difference = relative(expected.iter(), mixed.gradients[probe].1.iter());
        assert!(difference < 1e-5, "task {task}: {difference:e}");
        assert!((alone.of_tasks[task] / mixed.of_tasks[task] - 1.0).abs() < 1e-5);
    }
}

#[test]
fn padding_changes_no_samples_loss() {
    let device = Device::flex();
    let job = job();
    let model = model(&job, &device);
    for (id, length) in ids(&job, [2, 4, 4]) {
        let loss = |parts: &[Part]| {
            let batch = job.batch(&buffer(&job, parts), 0..1, &device);
            job.mean_loss(&model, batch, &[1.0; 3]).of_tasks.unwrap().sum().into_scalar::<f64>()
        };
        let alone = loss(&[part(&[id], length, 5)]);
        for (images, words) in (length..=7).flat_map(|images| [5, WORDS].map(|words| (images, words))) {
            // The second sample is the same, so that the first one's share of its task's loss is known.
            let beside = loss(&[part(&[id, id], images, words)]);
            assert!((beside / alone - 1.0).abs() < 1e-5, "sample {id}, {images} × {words}: {alone} {beside}");
        }
    }
}
