//! Super-resolution on the project's own images.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/elsewhere.rs"]
mod elsewhere;
#[path = "common/held_out.rs"]
mod held_out;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_probe::TrackingAllocator;
use plimsoll_step::WeightedAccumulator;
use plimsoll_train::{Draw, Job, Loader, LoaderConfig, Source, Wanted};
use plimsoll_types::{Bytes, StepShape};
use plimsoll_workloads::sr::{BadImage, CropItem, DataError, Edsr, EdsrConfig, Photos, PhotosConfig, Sr, SrConfig};
use plimsoll_workloads::{Room, Shares};

use common::check_splits;
use elsewhere::check_stand_ins;
use held_out::with_inference;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const MODEL: EdsrConfig = EdsrConfig { channels: 8, blocks: 2 };

fn photos_config(folder: &Path) -> PhotosConfig {
    PhotosConfig {
        folder: folder.to_owned(),
        shares: Shares::validating(0.2),
        bad_image: BadImage::Fail,
        smallest_patch: 16,
        room: Room::boundless(folder),
    }
}

fn fixtures() -> Arc<Photos> {
    let store = tempfile::tempdir().unwrap();
    let config = photos_config(&plimsoll_fixtures::dir().join("sr"));
    Arc::new(Photos::read(&PhotosConfig { room: Room::boundless(store.path()), ..config }).unwrap())
}

fn job(photos: Arc<Photos>) -> Sr {
    Sr::new(SrConfig { model: MODEL, crops_per_image: 8, validation_tile: 48, seed: 5 }, photos)
}

/// A model whose last convolution is not zero, so that every layer has a gradient.
fn model(device: &Device) -> Edsr {
    device.seed(11);
    MODEL.init(device).map(&mut Noise)
}

struct Noise;

impl burn::module::ModuleMapper for Noise {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|it| {
            let noise = burn::tensor::Distribution::Normal(0.0, 0.05);
            Tensor::random(it.dims(), noise, &it.device().inner()).autodiff_like(&it)
        })
    }
}

/// Puts a tensor where another one is: with gradients, if that one has them.
trait AutodiffLike<const D: usize> {
    fn autodiff_like(self, other: &Self) -> Self;
}

impl<const D: usize> AutodiffLike<D> for Tensor<D> {
    fn autodiff_like(self, other: &Self) -> Self {
        if other.device().is_autodiff() { Self::from_inner(self).require_grad() } else { self }
    }
}

#[test]
fn every_split_of_a_step_has_the_gradient_of_the_undivided_one() {
    let device = Device::flex().autodiff();
    let (job, model) = (job(fixtures()), model(&device));
    let source = job.source();
    let mut buffer = source.buffer(StepShape::new(13, 24));
    source.collate(&Draw::of_extent(0, (0..13).collect(), 24), &[CropItem::Cut; 13], &mut buffer).unwrap();
    let gradients = |sizes: &[usize]| {
        let (mut accumulator, mut start) = (WeightedAccumulator::new(13), 0);
        for n in sizes {
            let loss = job.mean_loss(&model, job.batch(&buffer, start..start + n, &device), &[]).mean;
            let part = accumulator.backward(&model, &loss, *n as u64);
            accumulator.add(&model, part);
            start += n;
        }
        accumulator.finish()
    };
    let whole = gradients(&[13]);
    let splits = [vec![7, 6], vec![8, 5], vec![4, 4, 4, 1], vec![1; 13]];
    let splits = splits.map(|sizes| (format!("{sizes:?}"), gradients(&sizes)));
    check_splits(&model, &device, &whole, splits);
}

#[test]
fn a_rank_cuts_the_crops_that_it_runs() {
    let draw = Draw::of_extent(3, (0..13).map(|at| at * 5).collect(), 24);
    check_stand_ins(&job(fixtures()), &model(&Device::flex()), &draw, &(4..9), StepShape::new(13, 24));
}

#[test]
fn an_untrained_model_is_bicubic_upsampling() {
    let device = Device::flex();
    let values = (0..3 * 16 * 16).map(|at| ((at * 31) % 29) as f32 / 29.0).collect();
    let images = Tensor::<4>::from_data(TensorData::new(values, [1, 3, 16, 16]), &device);
    let bicubic = plimsoll_workloads::sr::upsample_bicubic(images.clone());
    let difference = (MODEL.init(&device).forward(images) - bicubic).abs().max().into_scalar::<f32>();
    assert!(difference < 1e-6, "{difference:e}");
}

#[test]
fn a_tile_far_from_its_borders_is_the_whole_image_there() {
    let device = Device::flex();
    let model = model(&device);
    let values = (0..3 * 40 * 40).map(|at| ((at * 31) % 29) as f32 / 29.0).collect();
    let image = Tensor::<4>::from_data(TensorData::new(values, [1, 3, 40, 40]), &device);
    let whole = model.forward(image.clone());
    let tile = model.forward(image.slice([0..1, 0..3, 8..40, 0..32]));
    let halo = MODEL.receptive_radius() as usize;
    let inner = |x: Tensor<4>, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        x.slice([0..1, 0..3, rows.start * 2..rows.end * 2, columns.start * 2..columns.end * 2])
    };
    let difference = inner(whole, 8 + halo..40, 0..32 - halo) - inner(tile, halo..32, 0..32 - halo);
    let difference = difference.abs().max().into_scalar::<f32>();
    assert!(difference < 1e-5, "{difference:e}");
}

#[test]
fn the_split_is_the_same_every_time() {
    let (first, again) = (fixtures(), fixtures());
    let names = |photos: &Photos| photos.validation.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&first), names(&again));
    assert_eq!((first.train.len(), first.validation.len(), first.test.len()), (16, 4, 0));
    let shares = Shares { validation: 0.2, test: 0.2 };
    let tested = Photos::read(&PhotosConfig { shares, ..photos_config(&plimsoll_fixtures::dir().join("sr")) }).unwrap();
    assert_eq!((tested.train.len(), names(&tested)), (12, names(&first)));
    let all = tested.train.iter().chain(&tested.validation).chain(&tested.test);
    assert_eq!(all.map(|it| &it.name).collect::<BTreeSet<_>>().len(), 20);
}

#[test]
fn a_test_is_of_the_images_that_are_held_out_for_it() {
    let shares = Shares { validation: 0.2, test: 0.1 };
    let folder = plimsoll_fixtures::dir().join("sr");
    let read = |shares| Photos::read(&PhotosConfig { shares, ..photos_config(&folder) }).unwrap();
    let (tested, untested) = (job(Arc::new(read(shares))), job(Arc::new(read(Shares::validating(0.2)))));
    let device = Device::flex().autodiff();
    let model = tested.init(&device);
    assert!(tested.has_test() && !untested.has_test());
    let test =
        with_inference(tested.features(), |mut it| tested.test(&model, &device, &mut it)).unwrap().unwrap().metric;
    let validation =
        with_inference(tested.features(), |mut it| tested.validate(&model, &device, &mut it)).unwrap().unwrap().metric;
    // An untrained model is bicubic upsampling, which is the baseline of the same images.
    assert!((test.value - test.baseline).abs() < 0.02 && (validation.value - validation.baseline).abs() < 0.02);
    assert!((test.baseline - validation.baseline).abs() > 0.05, "{test:?} {validation:?}");
}

#[test]
fn content_does_not_depend_on_the_number_of_workers() {
    let job = job(fixtures());
    let draws = |workers| {
        let config = LoaderConfig { workers, ..LoaderConfig::cut(5, 10, 32, Bytes::mib(4)) };
        let source = job.source();
        let mut loader = Loader::try_new(&source, None, &Wanted::Edge(16), &config).unwrap();
        let mut steps = Vec::new();
        for step in 0..30 {
            let samples = loader.next(&Wanted::Edge(if step < 10 { 16 } else { 32 })).unwrap();
            steps.push((
                samples.draw.clone(),
                samples.buffer.pixels.lr().to_vec(),
                samples.buffer.pixels.hr().to_vec(),
            ));
            loader.recycle(samples).unwrap();
        }
        steps
    };
    let one = draws(1);
    assert_eq!(one, draws(3));
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (draw, ..) in &one {
        epochs.entry(draw.epoch).or_default().extend(draw.ids());
    }
    let mut first = epochs[&0].clone();
    first.sort_unstable();
    assert_eq!(first, (0..128).collect::<Vec<_>>());
}

/// A folder with two good images of the fixtures.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut images: Vec<_> =
        fs::read_dir(plimsoll_fixtures::dir().join("sr")).unwrap().map(|it| it.unwrap().path()).collect();
    images.sort();
    fs::create_dir(folder.path().join("below")).unwrap();
    fs::copy(&images[0], folder.path().join("one.png")).unwrap();
    fs::copy(&images[1], folder.path().join("below/two.png")).unwrap();
    folder
}

#[test]
fn a_folder_is_read_recursively_and_what_is_no_image_is_named() {
    let folder = folder();
    fs::write(folder.path().join("notes.txt"), "no image").unwrap();
    fs::write(folder.path().join("liar.png"), "no image either").unwrap();
    let photos = Photos::read(&photos_config(folder.path())).unwrap();
    assert_eq!((photos.train.len(), photos.validation.len()), (1, 1));
    assert_eq!(
        photos.skipped,
        ["liar.png", "notes.txt"].map(|it| format!("{it}: no PNG, JPEG, WebP, GIF, BMP, PNM, QOI or TIFF image"))
    );
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_in_a_circle_is_not_followed() {
    let folder = folder();
    std::os::unix::fs::symlink(".", folder.path().join("again")).unwrap();
    let photos = Photos::read(&photos_config(folder.path())).unwrap();
    assert_eq!((photos.train.len(), photos.validation.len()), (1, 1));
}

#[test]
fn a_truncated_image_is_refused_or_skipped_by_name() {
    let folder = folder();
    let whole = fs::read(folder.path().join("one.png")).unwrap();
    fs::write(folder.path().join("cut.png"), &whole[..whole.len() / 2]).unwrap();
    let config = photos_config(folder.path());
    let error = Photos::read(&config).unwrap_err();
    assert!(matches!(&error, DataError::Damaged { path, .. } if path.ends_with("cut.png")), "{error}");
    let photos = Photos::read(&PhotosConfig { bad_image: BadImage::Skip, ..config }).unwrap();
    assert!(photos.skipped[0].starts_with("cut.png: damaged"), "{:?}", photos.skipped);
}

#[test]
fn an_image_below_the_smallest_patch_is_refused_with_the_sizes() {
    let folder = folder();
    image::RgbImage::new(40, 20).save(folder.path().join("tiny.png")).unwrap();
    let error = Photos::read(&photos_config(folder.path())).unwrap_err().to_string();
    assert!(error.contains("tiny.png: it has 40 × 20 pixels"), "{error}");
    assert!(error.contains("at least 32 × 32") && error.contains("at most 10"), "{error}");
}

#[test]
fn a_folder_with_nothing_to_use_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let error = Photos::read(&photos_config(empty.path())).unwrap_err().to_string();
    assert!(error.contains("0 of 0 files"), "{error}");
    let error = Photos::read(&photos_config(&empty.path().join("gone"))).unwrap_err().to_string();
    assert!(error.contains("no such folder"), "{error}");
}
