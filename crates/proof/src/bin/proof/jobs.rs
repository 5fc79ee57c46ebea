//! What is planned and run: the reference jobs, and models that nobody here tunes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Rgb, RgbImage};
use plimsoll_proof::finder::Random;
use plimsoll_proof::plans::Edges;
use plimsoll_train::{BadSample, Item, Job, Lengths, LoaderConfig, Source};
use plimsoll_types::{Bytes, Extent, StepShape};
use plimsoll_workloads::multitask::{Multitask, MultitaskConfig, Samples, SamplesConfig};
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig, SequenceConfig, SequenceJob};
use plimsoll_workloads::sr::{BadImage, EdsrConfig, Photos, PhotosConfig, Sr, SrConfig};
use plimsoll_workloads::text::{Corpus, CorpusConfig, GptConfig, Text};
use plimsoll_workloads::{Room, Shares};

use crate::Failed;
use crate::foreign::{ForeignJob, NormalisedNet, SequenceModel, UNet, VisionTransformer};

/// Names of the four reference jobs, then of the foreign models.
pub(crate) const JOBS: [&str; 8] = ["sr", "text", "sequence", "multitask", "unet", "batch-norm", "lstm", "vit"];

/// Something to do with a job.
pub(crate) trait OnJob {
    /// What comes of it.
    type Out;

    /// Does it.
    fn run<J: Job>(self, job: &J) -> Result<Self::Out, Failed>;
}

/// Makes the job of that name, and does something with it.
///
/// `data` holds a folder for each of the jobs that read text, recordings or samples.
pub(crate) fn with_job<T: OnJob>(name: &str, data: Option<&Path>, task: T) -> Result<T::Out, Failed> {
    let folder = || match data {
        Some(data) => Ok(data.join(name)),
        None => Err(format!("find the data of `{name}`: there is no --data FOLDER that holds a folder `{name}`")),
    };
    match name {
        "sr" => {
            let folder = tempfile::tempdir()?;
            task.run(&sr(folder.path())?)
        }
        "text" => task.run(&text(&folder()?)?),
        "sequence" => task.run(&sequence(&folder()?)?),
        "multitask" => {
            let store = tempfile::tempdir()?;
            task.run(&multitask(folder()?, store.path())?)
        }
        "unet" => task.run(&ForeignJob::<UNet>::new()),
        "batch-norm" => task.run(&ForeignJob::<NormalisedNet>::new()),
        "lstm" => task.run(&ForeignJob::<SequenceModel>::new()),
        "vit" => task.run(&ForeignJob::<VisionTransformer>::new()),
        _ => Err(format!("prove `{name}`: there is no such job").into()),
    }
}

/// Returns what the extent of a job's samples counts.
pub(crate) fn edges(name: &str) -> Edges {
    match name {
        "text" | "sequence" | "lstm" => Edges::Positions,
        "multitask" => Edges::ImagesAndWords,
        _ => Edges::Pixels,
    }
}

/// Returns the length of every sample.
pub(crate) fn lengths<S: Source>(source: &S) -> Result<Vec<u32>, Failed> {
    match source.lengths() {
        Lengths::Known(index) => Ok(index.iter().map(Extent::edge).collect()),
        Lengths::Grouped(groups) => Ok(groups.index().iter().map(|[length]| length).collect()),
        Lengths::Packed { index, .. } => Ok(index.iter().map(|[length]| length).collect()),
        Lengths::Streamed { .. } => (0..source.n_samples()).map(|id| Ok(source.read(0, id)?.extent().edge())).collect(),
        Lengths::Cut => Err("compare batches of samples that have no length".into()),
    }
}

/// Enough for the few steps that a loader collates ahead.
const BUFFER_LIMIT: Bytes = Bytes::gib(1);

/// Returns the loader of a run whose largest step is this one.
pub(crate) fn loader(largest: StepShape) -> LoaderConfig {
    LoaderConfig { largest_extent: largest.extent(), ..LoaderConfig::cut(0, largest.samples, 1, BUFFER_LIMIT) }
}

/// Sides of the images: patches of 64 pixels at half the resolution fit.
const SIDE: u32 = 160;

/// Images, enough to train on some and hold out one.
const N_IMAGES: u64 = 4;

/// Super-resolution on noise: no allocation depends on what is on the images.
fn sr(folder: &Path) -> Result<Sr, Failed> {
    for image in 0..N_IMAGES {
        let mut random = Random::new(image);
        let noise = RgbImage::from_fn(SIDE, SIDE, |_, _| Rgb([0; 3].map(|_: u8| random.next_u64().to_be_bytes()[0])));
        noise.save(folder.join(format!("{image}.png")))?;
    }
    let room = Room::boundless(folder);
    let folder = folder.to_owned();
    let config =
        PhotosConfig { folder, shares: Shares::validating(0.25), bad_image: BadImage::Fail, smallest_patch: 16, room };
    let photos = Arc::new(Photos::read(&config)?);
    let model = EdsrConfig { channels: 16, blocks: 4 };
    Ok(Sr::new(SrConfig { model, crops_per_image: 32, validation_tile: 64, seed: 0 }, photos))
}

/// The language model of a run by default, on the documents of a folder.
fn text(folder: &Path) -> Result<Text, Failed> {
    Ok(Text::new(GptConfig::default(), corpus(folder)?))
}

/// The documents of a folder.
pub(crate) fn corpus(folder: &Path) -> Result<Arc<Corpus>, Failed> {
    let config = CorpusConfig::new(folder.to_owned(), Room::boundless(folder));
    Ok(Arc::new(Corpus::read(&CorpusConfig { bad_document: BadSample::Skip, ..config })?))
}

/// The classifier of a run by default, on the recordings of a folder, whose lengths are known.
pub(crate) fn sequence(folder: &Path) -> Result<SequenceJob, Failed> {
    let recordings = Arc::new(Recordings::read(&RecordingsConfig::new(folder.to_owned()))?);
    Ok(SequenceJob::new(SequenceConfig { stream: false, ..SequenceConfig::default() }, recordings))
}

/// The three tasks of a run by default, on the samples of a folder; what is decoded goes into `store`.
fn multitask(folder: PathBuf, store: &Path) -> Result<Multitask, Failed> {
    let samples = Arc::new(Samples::read(&SamplesConfig::new(folder, Room::boundless(store)))?);
    Ok(Multitask::new(MultitaskConfig::new(0), samples))
}
