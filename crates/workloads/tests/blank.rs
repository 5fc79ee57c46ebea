//! Blank batches, of which plans and soundings are made: steps of them give numbers, for every job.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;

use burn::optim::GradientsParams;
use burn::tensor::Device;
use plimsoll_sampler::Admit;
use plimsoll_step::squared_norm;
use plimsoll_train::{BadSample, Job};
use plimsoll_types::{Extent, StepShape};
use plimsoll_workloads::multitask::{FusionConfig, Multitask, MultitaskConfig, Samples, SamplesConfig};
use plimsoll_workloads::sequence::{EncoderConfig, Recordings, RecordingsConfig, SequenceConfig, SequenceJob};
use plimsoll_workloads::sr::{BadImage, EdsrConfig, Photos, PhotosConfig, Sr, SrConfig};
use plimsoll_workloads::text::{Corpus, CorpusConfig, GptConfig, Text};
use plimsoll_workloads::{Room, Shares};

/// Runs a blank step of each shape, forward and backward.
#[track_caller]
fn check<J: Job>(job: &J, shapes: &[(u32, &[u32])]) {
    let device = Device::flex().autodiff();
    device.seed(3);
    let model = job.init(&device);
    let weights = vec![1.0; job.tasks().len()];
    for (samples, edges) in shapes.iter().copied() {
        let shape = StepShape::of(samples, Extent::try_new(edges).unwrap());
        let batch = job.blank_batch(shape, &device);
        let loss = job.mean_loss(&model, batch, &weights).mean;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let norm = squared_norm(&model, &gradients, &device).into_scalar::<f64>();
        let loss = loss.into_scalar::<f64>();
        assert!(!gradients.is_empty(), "{} of {shape} has no gradients", job.name());
        assert!(loss.is_finite() && norm.is_finite(), "{} of {shape}: {loss} {norm}", job.name());
    }
}

/// Returns a folder of the fixtures, and reads it into a room of its own.
fn with<T>(job: &str, read: impl FnOnce(&Path, Room) -> T) -> T {
    let store = tempfile::tempdir().unwrap();
    read(&plimsoll_fixtures::dir().join(job), Room::boundless(store.path()))
}

#[test]
fn a_blank_step_of_super_resolution_is_finite() {
    let photos = with("sr", |folder, room| {
        let (folder, bad_image) = (folder.to_owned(), BadImage::Fail);
        Photos::read(&PhotosConfig { folder, shares: Shares::validating(0.2), bad_image, smallest_patch: 16, room })
            .unwrap()
    });
    let model = EdsrConfig { channels: 4, blocks: 1 };
    let config = SrConfig { model, crops_per_image: 4, validation_tile: 32, seed: 5 };
    check(&Sr::new(config, Arc::new(photos)), &[(1, &[16]), (3, &[20])]);
}

#[test]
fn a_blank_step_of_sequences_is_finite() {
    let recordings = with("sequence", |folder, _| {
        let config = RecordingsConfig::new(folder.to_owned());
        Recordings::read(&config).unwrap()
    });
    let model = EncoderConfig { heads: 2, head_width: 8, blocks: 1 };
    let config = SequenceConfig { model, stream: false };
    check(&SequenceJob::new(config, Arc::new(recordings)), &[(1, &[1]), (3, &[16])]);
}

#[test]
fn a_blank_step_of_several_tasks_is_finite() {
    let samples =
        with("multitask", |folder, room| Samples::read(&SamplesConfig::new(folder.to_owned(), room)).unwrap());
    let model = FusionConfig { channels: 4, features: 16, ..FusionConfig::default() };
    let job = Multitask::new(MultitaskConfig { model, ..MultitaskConfig::new(3) }, Arc::new(samples));
    check(&job, &[(1, &[1, 1]), (1, &[2, 7]), (3, &[1, 24]), (4, &[5, 3])]);
}

#[test]
fn a_blank_step_of_texts_is_finite() {
    let corpus = with("text", |folder, room| {
        let (folder, bad_document, lengths) = (folder.to_owned(), BadSample::Fail, Admit::default());
        let (shares, vocabulary, longest) = (Shares::validating(0.2), 300, 64);
        Corpus::read(&CorpusConfig { folder, shares, bad_document, vocabulary, lengths, longest, together: None, room })
            .unwrap()
    });
    let model = GptConfig { layers: 1, width: 16, heads: 2 };
    check(&Text::new(model, Arc::new(corpus)), &[(1, &[1]), (3, &[16])]);
}
