//! Mixed samples for training.

use std::io;
use std::sync::Arc;

use plimsoll_sampler::{MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape, SampleIndex};
use plimsoll_train::{Draw, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::augment::{Augmentation, Chance, warped};
use super::batch::{Sizes, Standard, images_and_words, of_images_and_words};
use super::lines::Asks;
use super::sample::{Sample, Shown};
use super::samples::Samples;
use super::words::PADDING;
use crate::store::Stored;

/// Numbers about each sample in a [`MixedBuffer`]: images of the first group, share in the loss of its task times the
/// samples of the step, tasks in the step.
pub(crate) const N_METADATA: u32 = 3;

/// The samples of a folder that are trained on, a little different in every epoch.
#[derive(Debug)]
pub struct SampleSource {
    samples: Arc<Samples>,
    index: SampleIndex<2>,
    augmentation: Augmentation,
    seed: u64,
}

/// A sample on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSample {
    /// The number of its task.
    task: u16,
    n_images: u32,
    /// Images of the group that is shown first.
    n_first: u32,
    /// `[n_images, 3, size, size]`.
    pixels: Vec<u8>,
    /// Of each image.
    standards: Vec<Standard>,
    tokens: Vec<u32>,
    label: i32,
}

/// The samples of one optimizer step.
#[derive(Debug)]
pub struct SampleBuffer {
    pub(crate) mixed: MixedBuffer,
    /// The images and words that each sample is padded to.
    pub(crate) extents: Vec<Extent>,
    /// Of every image, those that are padding included.
    standards: Vec<Standard>,
}

impl SampleSource {
    /// Takes samples of a folder; the seed decides how they change from epoch to epoch, within these bounds.
    pub fn new(samples: Arc<Samples>, augmentation: Augmentation, seed: u64) -> Self {
        let of_all = |length: fn(&Sample) -> u32| samples.train.iter().map(length).collect::<Vec<_>>();
        let lengths = [of_all(Sample::n_images), of_all(Sample::n_words)];
        let tasks: Vec<_> = samples.train.iter().map(|it| it.task).collect();
        let index = SampleIndex::try_new(lengths).and_then(|index| index.with_tasks(tasks));
        let index = index.unwrap_or_else(|error| unreachable!("there are samples to train on: {error}"));
        Self { samples, index, augmentation, seed }
    }
}

impl LoadedSample {
    /// Reads a held-out sample as it is; a pair is shown the other way round where that is asked for.
    pub(crate) fn held_out(samples: &Samples, sample: &Sample, exchanged: bool) -> io::Result<Self> {
        let planes = |stored: &Stored| planes(samples, *stored);
        let pixels =
            shown(sample, exchanged).flat_map(|group| &group.images).map(planes).collect::<Result<Vec<_>, _>>();
        Ok(Self::new(samples, sample, exchanged, pixels?.concat()))
    }

    /// Takes a sample whose label nobody knows: its groups of images in the order in which they are shown.
    pub(crate) fn asked(task: u16, groups: &[Vec<Vec<u8>>], tokens: Vec<u32>) -> Self {
        let (n_images, n_first) = (groups.iter().map(Vec::len).sum(), groups.first().map_or(0, Vec::len));
        let images = || groups.iter().flatten();
        let pixels = images().flat_map(|rows| planar(rows)).collect();
        let standards = images().map(|rows| Standard::of(&planar(rows).collect::<Vec<_>>())).collect();
        Self { task, n_images: narrow(n_images), n_first: narrow(n_first), pixels, standards, tokens, label: 0 }
    }

    /// Reads a sample with other images of the same subjects, where its answer is no label, each a little changed; two groups
    /// whose order is asked for may be exchanged.
    fn trained(samples: &Samples, sample: &Sample, by: Augmentation, mut chance: Chance) -> io::Result<Self> {
        let (side, exchanged) = (samples.album().size() as usize, samples.asks(sample) == Asks::Order && chance.flip());
        let mut pixels = Vec::new();
        for group in shown(sample, exchanged) {
            // A label is that of these images, and not of others of their subject.
            let is_of_images = samples.asks(sample) == Asks::Label;
            let pool = if is_of_images { &group.images } else { samples.pool(group.subject) };
            for stored in chance.some_of(pool, group.images.len()) {
                pixels.extend(warped(&planes(samples, stored)?, side, by, &mut chance));
            }
        }
        Ok(Self::new(samples, sample, exchanged, pixels))
    }

    /// Returns the number of the right answer.
    pub(crate) fn label(&self) -> usize {
        usize::try_from(self.label).unwrap_or(0)
    }

    fn new(samples: &Samples, sample: &Sample, exchanged: bool, pixels: Vec<u8>) -> Self {
        let n_first = shown(sample, exchanged).next().map_or(0, |group| group.images.len());
        let label = if samples.asks(sample) == Asks::Order { usize::from(exchanged) } else { sample.answer };
        Self {
            task: sample.task,
            n_images: sample.n_images(),
            n_first: narrow(n_first),
            standards: pixels.chunks_exact(3 * (samples.album().size() as usize).pow(2)).map(Standard::of).collect(),
            pixels,
            tokens: sample.tokens.clone(),
            label: i32::try_from(label).unwrap_or(i32::MAX),
        }
    }
}

/// Returns the groups of a sample in the order in which they are shown.
fn shown(sample: &Sample, exchanged: bool) -> impl Iterator<Item = &Shown> {
    let n = sample.groups.len();
    (0..n).map(move |at| &sample.groups[if exchanged { n - 1 - at } else { at }])
}

/// Reads an image as planes, of shape `[3, size, size]`.
fn planes(samples: &Samples, stored: Stored) -> io::Result<Vec<u8>> {
    let mut image = vec![0; 3 * (samples.album().size() as usize).pow(2)];
    samples.album().read(stored, &mut image)?;
    Ok(planar(&image).collect())
}

/// Returns rows of interleaved RGB as planes.
fn planar(rows: &[u8]) -> impl Iterator<Item = u8> {
    (0..3).flat_map(move |channel| rows.iter().skip(channel).step_by(3).copied())
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
        let largest = self.extents.iter().copied().reduce(Extent::joined).unwrap_or(of_images_and_words(0, 0));
        let [n_images, _] = images_and_words(largest);
        self.mixed.begin(cell(sizes, largest));
        let mut counts = vec![0; sizes.outputs.len()];
        for it in loaded {
            counts[usize::from(it.task)] += 1;
        }
        for (index, (sample, extent)) in loaded.iter().zip(&self.extents).enumerate() {
            let own = sample.extent();
            if !extent.covers(own) {
                return Err((index, format!("it has {own} images × words, and is padded to {extent}")));
            }
            push(&mut self.mixed, index, sample, sizes.image, &counts).map_err(|reason| (index, reason))?;
            self.standards.extend_from_slice(&sample.standards);
            self.standards.resize((index + 1) * n_images, Standard::BLACK);
        }
        Ok(())
    }
}

/// Adds a sample to a step that has so many of each task.
fn push(
    mixed: &mut MixedBuffer,
    index: usize,
    sample: &LoadedSample,
    side: usize,
    counts: &[usize],
) -> Result<(), String> {
    let share = counts.iter().sum::<usize>() as f64 / counts[usize::from(sample.task)] as f64;
    let n_tasks = counts.iter().filter(|it| **it > 0).count();
    let edge = narrow(side);
    let image = |pixels| MixedImage { height: edge, width: edge, pixels };
    let images: Vec<_> = sample.pixels.chunks_exact(3 * side * side).map(image).collect();
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
    let [_, words] = images_and_words(largest.extent());
    let one = of_images_and_words(1, narrow(words));
    [(largest.samples, cell(sizes, largest.extent())), (most_samples(largest), cell(sizes, one))]
}

fn most_samples(largest: StepShape) -> u32 {
    largest.samples.saturating_mul(largest.edge())
}

fn cell(sizes: &Sizes, extent: Extent) -> MixedShape {
    let (side, [images, tokens]) = (narrow(sizes.image), images_and_words(extent).map(narrow));
    MixedShape { images, height: side, width: side, tokens, labels: 1 }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Source for SampleSource {
    type Item = LoadedSample;
    type Buffer = SampleBuffer;

    fn n_samples(&self) -> u64 {
        self.samples.train.len() as u64
    }

    fn lengths(&self) -> Lengths {
        Lengths::Known(self.index.clone().into())
    }

    fn describe(&self, id: u64) -> String {
        let sample = usize::try_from(id).ok().and_then(|id| self.samples.train.get(id));
        sample.map_or_else(String::new, |it| {
            format!("line {} of samples.jsonl with {} images and {} words", it.line, it.n_images(), it.n_words())
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

impl Item for LoadedSample {
    fn extent(&self) -> Extent {
        of_images_and_words(self.n_images, narrow(self.tokens.len()))
    }

    fn bytes(&self) -> Bytes {
        let standards = size_of::<Standard>() * self.standards.len();
        Bytes((self.pixels.len() + standards + 4 * self.tokens.len() + size_of::<Self>()) as u64)
    }

    fn task(&self) -> u16 {
        self.task
    }
}
