//! Measuring a part of what is held out.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;

#[path = "common/held_out.rs"]
mod held_out;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alone::alone;
use burn::tensor::Device;
use plimsoll_probe::TrackingAllocator;
use plimsoll_sampler::Admit;
use plimsoll_train::{Amount, BadSample, Job, Metric, Validation};
use plimsoll_workloads::multitask::{FusionConfig, Multitask, MultitaskConfig, Samples, SamplesConfig};
use plimsoll_workloads::sr::{BadImage, EdsrConfig, Photos, PhotosConfig, Sr, SrConfig};
use plimsoll_workloads::text::{Corpus, CorpusConfig, GptConfig, Text};
use plimsoll_workloads::{Room, Shares};

use held_out::with_inference;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

fn data(job: &str) -> PathBuf {
    plimsoll_fixtures::dir().join(job)
}

fn sr(store: &Path) -> Sr {
    let photos = PhotosConfig {
        folder: data("sr"),
        shares: Shares::validating(0.2),
        bad_image: BadImage::Fail,
        smallest_patch: 16,
        room: Room::boundless(store),
    };
    let model = EdsrConfig { channels: 8, blocks: 2 };
    let config = SrConfig { model, crops_per_image: 8, validation_tile: 32, seed: 5 };
    Sr::new(config, Arc::new(Photos::read(&photos).unwrap()))
}

/// Measures an untrained model; the generator that draws it is that of all tests.
fn measured<J: Job>(job: &J, amount: Amount) -> Validation {
    let _alone = alone();
    let device = Device::flex().autodiff();
    device.seed(1);
    with_inference(job.features(), |inference| {
        let mut inference = inference.deterministic(true).measuring(amount, 3);
        job.validate(&job.init(&device), &device, &mut inference).unwrap().unwrap()
    })
}

/// All is measured unless less is asked for, and a part is the same for the same seed.
#[track_caller]
fn check(job: &impl Job) -> [Metric; 2] {
    let all = measured(job, Amount::All);
    assert_eq!(measured(job, Amount::AtMost(1_000_000)), all);
    let part = measured(job, Amount::AtMost(24));
    assert_eq!(measured(job, Amount::AtMost(24)), part);
    assert_ne!(part, all, "a part is all");
    [all.metric, part.metric]
}

#[test]
fn the_baseline_of_some_tiles_is_of_the_same_tiles() {
    let store = tempfile::tempdir().unwrap();
    // An untrained model is bicubic upsampling, which is the baseline.
    for Metric { value, baseline, .. } in check(&sr(store.path())) {
        assert!((value - baseline).abs() < 0.02, "{value} {baseline}");
    }
}

#[test]
fn the_baseline_of_some_sections_is_of_the_same_sections() {
    let config = CorpusConfig {
        folder: data("text"),
        shares: Shares::validating(0.2),
        bad_document: BadSample::Fail,
        vocabulary: 300,
        lengths: Admit::default(),
        longest: 32,
        room: Room::boundless(&data("text")),
    };
    let corpus = Arc::new(Corpus::read(&config).unwrap());
    let [all, part] = check(&Text::new(GptConfig { layers: 1, width: 16, heads: 2 }, Arc::clone(&corpus)));
    let yardstick = corpus.validation.yardstick((0..).take(corpus.validation.sections.len()));
    assert!((all.baseline - yardstick.bits_per_byte(yardstick.bigram)).abs() < 1e-9, "{all:?}");
    assert!(
        (part.baseline - all.baseline).abs() > 1e-9 && (part.baseline / all.baseline - 1.0).abs() < 0.2,
        "{part:?} {all:?}"
    );
}

#[test]
fn a_part_of_mixed_samples_has_all_tasks() {
    let store = tempfile::tempdir().unwrap();
    let samples =
        SamplesConfig { image_size: 16, ..SamplesConfig::new(data("multitask"), Room::boundless(store.path())) };
    let model = FusionConfig { channels: 4, features: 16, ..FusionConfig::default() };
    let job = Multitask::new(
        MultitaskConfig { model, ..MultitaskConfig::new(5) },
        Arc::new(Samples::read(&samples).unwrap()),
    );
    let part = measured(&job, Amount::AtMost(12));
    assert!(part.tasks.iter().all(|it| it.value.is_finite() && it.baseline.is_finite()), "{part:?}");
    assert!(part.metric.value.is_finite());
    assert_eq!(measured(&job, Amount::AtMost(12)), part);
    assert_eq!(measured(&job, Amount::AtMost(100_000)), measured(&job, Amount::All));
}
