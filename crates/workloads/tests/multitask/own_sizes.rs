//! Images that keep their own shapes and sizes.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use image::{Rgb, RgbImage};
use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Draw, Item, Job, Lengths, Part, Source};
use plimsoll_types::{Extent, StepShape};
use plimsoll_workloads::Room;
use plimsoll_workloads::multitask::{
    FusionConfig, LoadedSample, Multitask, MultitaskConfig, SampleBuffer, Samples, SamplesConfig,
};

use crate::held_out::with_inference;
use crate::{model, values_of};

/// The longest side of an image.
const SIDE: u32 = 20;
/// Width and height of the files of each subject, of which some are shrunk.
const FILES: [[(u32, u32); 8]; 2] = [
    [(5, 9), (9, 5), (16, 16), (7, 11), (40, 30), (3, 20), (13, 13), (1, 6)],
    [(12, 12), (20, 8), (8, 20), (11, 7), (19, 17), (64, 16), (6, 6), (10, 10)],
];

/// A folder with images of many sizes, in samples of one to three of them and in pairs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for (subject, sizes) in ["ash", "oak"].into_iter().zip(FILES) {
        fs::create_dir(folder.path().join(subject)).unwrap();
        for (at, (width, height)) in sizes.into_iter().enumerate() {
            let value = |x: u32, y: u32| u8::try_from((x * 37 + y * 91 + x * y * 5) % 251).unwrap();
            let shift = if subject == "ash" { 0 } else { 90 };
            let pixel = |x, y| Rgb([value(x, y), value(y, x) / 2, value(x + y, x) / 3 + shift]);
            RgbImage::from_fn(width, height, pixel).save(folder.path().join(format!("{subject}/{at}.png"))).unwrap();
        }
        for n in [1, 2, 3] {
            for first in 0..6 {
                let images: Vec<_> = (first..first + n).map(|at| format!("\"{subject}/{at}.png\"")).collect();
                let images = images.join(",");
                writeln!(
                    list,
                    r#"{{"task":"which","subjects":["{subject}"],"images":[{images}],"text":"a tree, number {n}"}}"#
                )
                .unwrap();
            }
        }
    }
    // Each with each, so that some have both images on one side.
    for (ash, oak) in (0..8).flat_map(|ash| (0..8).map(move |oak| (ash, oak))) {
        writeln!(
            list,
            r#"{{"task":"order","subjects":["ash","oak"],"images":["ash/{ash}.png","oak/{oak}.png"],"counts":[1,1],"text":"ash, then oak"}}"#
        )
        .unwrap();
    }
    fs::write(folder.path().join("samples.jsonl"), list).unwrap();
    folder
}

fn samples(folder: &Path) -> Samples {
    let config = SamplesConfig::new(folder.to_owned(), Room::boundless(folder));
    Samples::read(&SamplesConfig { image_size: SIDE, own_sizes: true, ..config }).unwrap()
}

fn job(folder: &Path, stream: bool) -> Multitask {
    let model = FusionConfig { channels: 4, features: 16, ..FusionConfig::default() };
    Multitask::new(MultitaskConfig { model, stream, ..MultitaskConfig::new(5) }, Arc::new(samples(folder)))
}

fn extent(images: u32, words: u32, side: u32) -> Extent {
    Extent::try_new(&[images, words, side]).unwrap()
}

/// Collates samples of epoch 2.
fn buffer(job: &Multitask, parts: &[Part]) -> SampleBuffer {
    let source = job.source();
    let draw = Draw { epoch: 2, parts: parts.to_vec() };
    let items: Vec<_> = draw.ids().map(|id| source.read(2, id).unwrap()).collect();
    let mut buffer = source.buffer(StepShape::of(u32::try_from(items.len()).unwrap(), extent(4, 24, 32)));
    source.collate(&draw, &items, &mut buffer).unwrap();
    buffer
}

#[test]
fn a_sample_is_as_long_as_its_longest_side_and_a_plan_knows_the_longest_that_may_be_drawn() {
    let folder = folder();
    let (known, streamed) = (job(folder.path(), false).source(), job(folder.path(), true).source());
    let index = known.lengths().index().unwrap();
    assert_eq!(index.n_axes(), 3);
    let longest = index.iter().reduce(Extent::joined).unwrap();
    assert_eq!((longest.edges()[2], streamed.lengths()), (SIDE, Lengths::Streamed { longest }));
    let mut shorter = 0;
    for id in 0..known.n_samples() {
        for epoch in 0..4 {
            let read = known.read(epoch, id).unwrap();
            assert!(index.get(id).unwrap().covers(read.extent()), "{id}: {}", read.extent());
            assert_eq!(read, streamed.read(epoch, id).unwrap());
            let is_known = |it: &LoadedSample| it.extent() == read.extent() && it.task() == read.task();
            assert!(known.stand_in(id).as_ref().is_none_or(is_known), "{id}");
            shorter += usize::from(read.extent().edges()[2] < index.get(id).unwrap().edges()[2]);
        }
    }
    assert!(0 < shorter, "other images are drawn in other epochs");
}

#[test]
fn padding_an_image_changes_no_samples_loss() {
    let (folder, device) = (folder(), Device::flex());
    let job = job(folder.path(), false);
    let (model, source) = (model(&job, &device), job.source());
    let loss = |id: u64, padded: Extent| {
        // The second sample is the same, so that the first one's share of its task's loss is known.
        let buffer = buffer(&job, &[Part::new(vec![id, id], padded)]);
        let batch = job.batch(&buffer, 0..1, &device);
        job.mean_loss(&model, batch, &[1.0; 2]).of_tasks.unwrap().sum().into_scalar::<f64>()
    };
    for id in (0..source.n_samples()).step_by(3) {
        let own = source.read(2, id).unwrap().extent();
        let alone = loss(id, own);
        let [images, words, side] = own.edges().try_into().unwrap();
        for more in [(0, 0, 1), (0, 0, 2), (1, 3, 5), (0, 1, 32 - side)] {
            let padded = extent(images + more.0, words + more.1, side + more.2);
            let found = loss(id, padded);
            assert!((found / alone - 1.0).abs() < 1e-5, "sample {id}, {own} in {padded}: {alone} {found}");
        }
    }
}

#[test]
fn every_split_of_a_step_has_the_gradients_of_the_undivided_one() {
    let (folder, device) = (folder(), Device::flex().autodiff());
    let job = job(folder.path(), false);
    let (model, source) = (model(&job, &device), job.source());
    let mut ids: Vec<_> = (0..source.n_samples()).step_by(2).collect();
    let extent_of = |id: u64| source.read(2, id).unwrap().extent();
    ids.sort_by_key(|id| (extent_of(*id).edges()[2], *id));
    let part = |ids: &[u64]| {
        let extents = ids.iter().map(|id| extent_of(*id));
        Part::new(ids.to_vec(), extents.reduce(Extent::joined).unwrap())
    };
    let gradients = |parts: &[Part], most: usize| {
        let (buffer, mut start) = (buffer(&job, parts), 0);
        let mut accumulator = WeightedAccumulator::new(ids.len() as u64);
        for part in parts {
            for chunk in part.ids.chunks(most) {
                let batch = job.batch(&buffer, start..start + chunk.len(), &device);
                let loss = job.mean_loss(&model, batch, &[0.5, 1.5]).mean;
                let part = accumulator.backward(&model, &loss, chunk.len() as u64);
                accumulator.add(&model, part);
                start += chunk.len();
            }
        }
        values_of(&model, &accumulator.finish())
    };
    let whole = gradients(&[part(&ids)], ids.len());
    let (short, long) = ids.split_at(ids.len() / 3);
    assert!(part(short).extent.edges()[2] < part(long).extent.edges()[2]);
    for most in [ids.len(), 4, 1] {
        let split = gradients(&[part(short), part(long)], most);
        let difference = crate::relative(whole.iter(), split.iter());
        assert!(difference < 1e-5, "{most}: gradients differ by {difference:e}");
    }
}

#[test]
fn what_is_held_out_is_measured_at_any_size_and_the_shape_is_part_of_what_a_run_keeps() {
    let (folder, device) = (folder(), Device::flex().autodiff());
    let job = job(folder.path(), false);
    let model = model(&job, &device);
    let measured = with_inference(job.features(), |mut inference| job.validate(&model, &device, &mut inference));
    let validation = measured.unwrap().unwrap();
    assert!(validation.metric.value.is_finite() && validation.tasks.len() == 2, "{validation:?}");
    let config = SamplesConfig::new(folder.path().to_owned(), Room::boundless(folder.path()));
    let squares = Samples::read(&SamplesConfig { image_size: SIDE, ..config }).unwrap();
    assert_ne!(squares.signature(), samples(folder.path()).signature());
    let squares = Multitask::new(MultitaskConfig::new(5), Arc::new(squares));
    assert_eq!(squares.source().lengths().index().unwrap().n_axes(), 2);
    assert_ne!(squares.program(), job.program());
}
