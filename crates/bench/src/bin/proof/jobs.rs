//! The reference jobs that exist.

use std::path::Path;
use std::sync::Arc;

use image::{Rgb, RgbImage};
use plimsoll_bench::finder::SplitMix64;
use plimsoll_train::{BadSample, Job};
use plimsoll_workloads::Room;
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig, SequenceConfig, SequenceJob};
use plimsoll_workloads::sr::{BadImage, EdsrConfig, Photos, PhotosConfig, Sr, SrConfig};
use plimsoll_workloads::text::{Corpus, CorpusConfig, GptConfig, Text};

use crate::Failed;

/// Names of the jobs.
pub(crate) const JOBS: [&str; 1] = ["sr"];

/// Something to do with a job.
pub(crate) trait OnJob {
    /// What comes of it.
    type Out;

    /// Does it.
    fn run<J: Job>(self, job: &J) -> Result<Self::Out, Failed>;
}

/// Makes the job of that name, with data of its own, and does something with it.
pub(crate) fn with_job<T: OnJob>(name: &str, task: T) -> Result<T::Out, Failed> {
    match name {
        "sr" => {
            let folder = tempfile::tempdir()?;
            task.run(&sr(folder.path())?)
        }
        _ => Err(format!("prove `{name}`: there is no such job; there are {}", JOBS.join(", ")).into()),
    }
}

/// Sides of the images: patches of 64 pixels at half the resolution fit.
const SIDE: u32 = 160;

/// Images, enough to train on some and hold out one.
const N_IMAGES: u64 = 4;

/// Super-resolution on noise: no allocation depends on what is on the images.
fn sr(folder: &Path) -> Result<Sr, Failed> {
    for image in 0..N_IMAGES {
        let mut random = SplitMix64::new(image);
        let noise = RgbImage::from_fn(SIDE, SIDE, |_, _| Rgb([0; 3].map(|_: u8| random.next_u64().to_be_bytes()[0])));
        noise.save(folder.join(format!("{image}.png")))?;
    }
    let room = Room::boundless(folder);
    let folder = folder.to_owned();
    let config = PhotosConfig { folder, validation_share: 0.25, bad_image: BadImage::Fail, smallest_patch: 16, room };
    let photos = Arc::new(Photos::read(&config)?);
    let model = EdsrConfig { channels: 16, blocks: 4 };
    Ok(Sr::new(SrConfig { model, crops_per_image: 32, validation_tile: 64, seed: 0 }, photos))
}

/// The language model of a run by default, on the documents of a folder.
pub(crate) fn text(folder: &Path) -> Result<Text, Failed> {
    let (room, folder) = (Room::boundless(folder), folder.to_owned());
    let (bad_document, vocabulary, longest) = (BadSample::Skip, 2048, 512);
    let corpus = CorpusConfig { folder, validation_share: 0.1, bad_document, vocabulary, longest, room };
    let corpus = Arc::new(Corpus::read(&corpus)?);
    Ok(Text::new(GptConfig::default(), corpus))
}

/// The classifier of a run by default, on the recordings of a folder, whose lengths are known.
pub(crate) fn sequence(folder: &Path) -> Result<SequenceJob, Failed> {
    let folder = folder.to_owned();
    let (bad_sample, classes) = (BadSample::Fail, Vec::new());
    let config = RecordingsConfig { folder, validation_share: 0.2, bad_sample, classes, longest: u32::MAX };
    let recordings = Arc::new(Recordings::read(&config)?);
    Ok(SequenceJob::new(SequenceConfig { stream: false, ..SequenceConfig::default() }, recordings))
}
