//! Mixed samples for training.

use std::sync::Arc;

use plimsoll_sampler::{IndexError, MixedBuffer, MixedConfig, MixedSample, MixedShape, SampleIndex};
use plimsoll_train::{Draw, Index, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::augment::Augmentation;
use super::lines::LIST;
use super::loaded::LoadedSample;
use super::samples::Samples;
use super::sizes::{Padded, Sizes, narrow};
use super::standard::Standard;
use super::words::PADDING;
use crate::chance::Chance;

/// Numbers about each sample in a [`MixedBuffer`]: images of the first group, share in the loss of its task times the
/// samples of the step, tasks in the step.
pub(crate) const N_METADATA: u32 = 3;

/// The samples of a folder that are trained on, a little different in every epoch.
#[derive(Debug)]
pub struct SampleSource {
    samples: Arc<Samples>,
    /// Images and words, and where images keep their shapes, the longest side: as much of each as a sample may have.
    index: Index,
    longest: Extent,
    augmentation: Augmentation,
    seed: u64,
    is_streamed: bool,
}

/// The samples of one optimizer step.
#[derive(Debug)]
pub struct SampleBuffer {
    pub(crate) mixed: MixedBuffer,
    /// What each sample is padded to.
    pub(crate) extents: Vec<Extent>,
    /// Of every image, those that are padding included.
    standards: Vec<Standard>,
}

impl SampleSource {
    /// Takes samples of a folder; the seed decides how they change from epoch to epoch, within these bounds. Streamed,
    /// steps are planned by the lengths that show when samples are read; those of the first look are only expected.
    pub fn new(samples: Arc<Samples>, (augmentation, seed): (Augmentation, u64), is_streamed: bool) -> Self {
        let (extents, tasks) = (samples.trained_extents(), samples.train.iter().map(|it| it.task).collect());
        let index = if samples.sizes().image.keeps_shape {
            index_of::<3>(&extents, tasks).map(Index::Three)
        } else {
            index_of::<2>(&extents, tasks).map(Index::Two)
        };
        let index = index.unwrap_or_else(|error| unreachable!("there are samples to train on: {error}"));
        let longest = extents.into_iter().reduce(Extent::joined).unwrap_or(Extent::new(1));
        Self { samples, index, longest, augmentation, seed, is_streamed }
    }
}

fn index_of<const AXES: usize>(extents: &[Extent], tasks: Vec<u16>) -> Result<SampleIndex<AXES>, IndexError> {
    let along = |axis: usize| extents.iter().map(|it| it.edges()[axis]).collect::<Vec<_>>();
    SampleIndex::try_new(std::array::from_fn(along)).and_then(|index| index.with_tasks(tasks))
}

impl SampleBuffer {
    /// Allocates room for so many samples of so many images and words.
    pub(crate) fn with_capacity(sizes: &Sizes, largest: StepShape) -> Self {
        let mixed = MixedBuffer::with_capacity(CONFIG, &cells(sizes, largest));
        let n_images = most_samples(largest) as usize;
        Self { mixed, extents: Vec::with_capacity(n_images), standards: Vec::with_capacity(n_images) }
    }

    /// Returns what makes each image of a sample one of mean 0 and deviation 1.
    pub(crate) fn standards(&self, sample: usize) -> &[Standard] {
        let n_images = self.mixed.batch().cell.images as usize;
        &self.standards[sample * n_images..][..n_images]
    }

    /// Lays samples out, each with the extent that it will be padded to.
    ///
    /// # Errors
    ///
    /// The index of the sample that does not fit, with the reason.
    pub(crate) fn fill(
        &mut self,
        sizes: &Sizes,
        loaded: &[LoadedSample],
        extents: impl Iterator<Item = Extent>,
    ) -> Result<(), (usize, String)> {
        self.extents.clear();
        self.extents.extend(extents);
        self.standards.clear();
        let largest = self.extents.iter().copied().reduce(Extent::joined).unwrap_or(sizes.image.extent(0, 0, 0));
        let n_images = sizes.image.padded(largest).images;
        self.mixed.begin(cell(sizes, largest));
        let mut counts = vec![0; sizes.outputs.len()];
        for it in loaded {
            counts[usize::from(it.task)] += 1;
        }
        for (index, (sample, extent)) in loaded.iter().zip(&self.extents).enumerate() {
            let own = sample.extent();
            if !extent.covers(own) {
                return Err((index, format!("it has {own} {}, and is padded to {extent}", sizes.unit())));
            }
            push(&mut self.mixed, index, sample, &counts).map_err(|reason| (index, reason))?;
            self.standards.extend(sample.images().iter().map(|it| it.standard));
            self.standards.resize((index + 1) * n_images, Standard::BLACK);
        }
        Ok(())
    }
}

/// Adds a sample to a step that has so many of each task.
fn push(mixed: &mut MixedBuffer, index: usize, sample: &LoadedSample, counts: &[usize]) -> Result<(), String> {
    let share = counts.iter().sum::<usize>() as f64 / counts[usize::from(sample.task)] as f64;
    let n_tasks = counts.iter().filter(|it| **it > 0).count();
    let images: Vec<_> = sample.images().iter().map(|it| it.mixed()).collect();
    let mixed_sample = MixedSample {
        id: index as u64,
        task: sample.task.into(),
        images: &images,
        tokens: &sample.tokens,
        labels: &[sample.label],
        metadata: &[f64::from(sample.n_first), share, n_tasks as f64],
    };
    mixed.push(&mixed_sample).map_err(|error| error.to_string())
}

const CONFIG: MixedConfig = MixedConfig { channels: 3, n_metadata: N_METADATA, padding_token: PADDING };

/// The largest step, and one of as many images that are samples of their own.
fn cells(sizes: &Sizes, largest: StepShape) -> [(u32, MixedShape); 2] {
    let whole = cell(sizes, largest.extent());
    [(largest.samples, whole), (most_samples(largest), MixedShape { images: 1, ..whole })]
}

fn most_samples(largest: StepShape) -> u32 {
    largest.samples.saturating_mul(largest.edge())
}

fn cell(sizes: &Sizes, extent: Extent) -> MixedShape {
    let Padded { images, words, side } = sizes.image.padded(extent);
    let [images, tokens, side] = [images, words, side].map(narrow);
    MixedShape { images, height: side, width: side, tokens, labels: 1 }
}

impl Source for SampleSource {
    type Item = LoadedSample;
    type Buffer = SampleBuffer;

    fn n_samples(&self) -> u64 {
        self.samples.train.len() as u64
    }

    fn lengths(&self) -> Lengths {
        if self.is_streamed {
            return Lengths::Streamed { longest: self.longest };
        }
        Lengths::Known(self.index.clone())
    }

    fn expected_extent(&self, id: u64) -> Option<Extent> {
        self.index.get(id)
    }

    fn describe(&self, id: u64) -> String {
        let sample = usize::try_from(id).ok().and_then(|id| self.samples.train.get(id));
        sample.map_or_else(String::new, |it| {
            format!("line {} of {LIST} with {} images and {} words", it.line, it.n_images(), it.n_words())
        })
    }

    fn smaller(&self) -> &'static str {
        "a smaller `multitask.image_size`"
    }

    fn read(&self, epoch: u64, id: u64) -> Result<LoadedSample, SourceError> {
        let sample = &self.samples.train[usize::try_from(id).unwrap_or(usize::MAX)];
        let chance = Chance::new(self.seed, epoch, id);
        let loaded = LoadedSample::trained(&self.samples, sample, self.augmentation, chance);
        loaded.map_err(|error| SourceError {
            sample_id: id,
            reason: format!("the decoded pixels of line {}: {error}", sample.line),
        })
    }

    fn stand_in(&self, id: u64) -> Option<LoadedSample> {
        let sample = self.samples.train.get(usize::try_from(id).ok()?)?;
        // How large images are that are drawn anew shows when they are.
        let is_known = !matches!(self.index, Index::Three(_)) || !self.samples.draws_anew(sample);
        self.index.get(id).filter(|_| is_known).map(|extent| LoadedSample::elsewhere(sample.task, extent))
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        let mixed = MixedBuffer::byte_capacity(CONFIG, &cells(&self.samples.sizes(), largest));
        let of_image = size_of::<Extent>() + size_of::<Standard>();
        mixed.saturating_add(Bytes(of_image as u64).saturating_mul(most_samples(largest).into()))
    }

    fn buffer(&self, largest: StepShape) -> SampleBuffer {
        SampleBuffer::with_capacity(&self.samples.sizes(), largest)
    }

    fn collate(&self, draw: &Draw, items: &[LoadedSample], buffer: &mut SampleBuffer) -> Result<(), SourceError> {
        let extents = draw.parts.iter().flat_map(|part| part.ids.iter().map(|_| part.extent));
        buffer.fill(&self.samples.sizes(), items, extents).map_err(|(index, reason)| {
            let ids: Vec<_> = draw.ids().collect();
            SourceError { sample_id: ids[index], reason }
        })
    }
}
