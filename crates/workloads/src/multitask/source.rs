//! Mixed samples for training.

use std::io;
use std::sync::Arc;

use plimsoll_sampler::{MixedBuffer, MixedConfig, MixedImage, MixedSample, MixedShape, SampleIndex};
use plimsoll_train::{Draw, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, StepShape};

use super::augment::{Chance, warped};
use super::lines::Task;
use super::samples::{Sample, Samples};
use super::words::PADDING;

/// Numbers about each sample in a [`MixedBuffer`]: images of the first group, share in the loss of its task times the
/// samples of the step, tasks in the step.
pub(crate) const N_METADATA: u32 = 3;

/// The samples of a folder that are trained on, a little different in every epoch.
#[derive(Debug)]
pub struct SampleSource {
    samples: Arc<Samples>,
    index: SampleIndex<1>,
    seed: u64,
}

/// A sample on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSample {
    task: Task,
    n_images: u32,
    /// Images of the group that is shown first.
    n_first: u32,
    /// `[n_images, 3, size, size]`.
    pixels: Vec<u8>,
    tokens: Vec<u32>,
    label: i32,
}

/// The samples of one optimizer step.
#[derive(Debug)]
pub struct SampleBuffer {
    pub(crate) mixed: MixedBuffer,
    /// What each sample is padded to.
    pub(crate) edges: Vec<u32>,
}

impl SampleSource {
    /// Takes samples of a folder; the seed decides how they change from epoch to epoch.
    pub fn new(samples: Arc<Samples>, seed: u64) -> Self {
        let lengths: Vec<_> = samples.train.iter().map(Sample::n_images).collect();
        let tasks: Vec<_> = samples.train.iter().map(|it| it.task.index()).collect();
        let index = SampleIndex::try_new([lengths]).and_then(|index| index.with_tasks(tasks));
        let index = index.unwrap_or_else(|error| unreachable!("there are samples to train on: {error}"));
        Self { samples, index, seed }
    }
}

impl LoadedSample {
    /// Reads the images of a sample; a pair is shown the other way round where that is asked for.
    ///
    /// With `chance` every image is changed a little.
    pub(crate) fn read(
        samples: &Samples,
        sample: &Sample,
        exchanged: bool,
        chance: Option<Chance>,
    ) -> io::Result<Self> {
        let size = samples.album().size() as usize;
        let (mut chance, mut pixels, mut image) = (chance, Vec::new(), vec![0; 3 * size * size]);
        let mut groups: Vec<_> = sample.groups.iter().collect();
        if exchanged {
            groups.reverse();
        }
        let chosen: Vec<_> = groups
            .iter()
            .flat_map(|group| match &mut chance {
                Some(chance) => chance.some_of(samples.pool(group.subject), group.images.len()),
                None => group.images.clone(),
            })
            .collect();
        for stored in chosen {
            samples.album().read(stored, &mut image)?;
            let planes: Vec<_> = (0..3).flat_map(|it| image.iter().skip(it).step_by(3).copied()).collect();
            match &mut chance {
                Some(chance) => pixels.extend(warped(&planes, size, chance)),
                None => pixels.extend(planes),
            }
        }
        let label = if sample.task == Task::Pair { usize::from(exchanged) } else { groups[0].subject };
        Ok(Self {
            task: sample.task,
            n_images: sample.n_images(),
            n_first: u32::try_from(groups[0].images.len()).unwrap_or(u32::MAX),
            pixels,
            tokens: sample.tokens.clone(),
            label: i32::try_from(label).unwrap_or(i32::MAX),
        })
    }
}

impl SampleBuffer {
    /// Allocates room for so many samples of so many images.
    pub(crate) fn with_capacity(samples: &Samples, largest: StepShape) -> Self {
        let mixed = MixedBuffer::with_capacity(CONFIG, &cells(samples, largest));
        Self { mixed, edges: Vec::with_capacity(most_samples(largest) as usize) }
    }

    /// Lays samples out, each with the edge that it will be padded to.
    ///
    /// # Errors
    ///
    /// The index of the sample that does not fit, with the reason.
    pub(crate) fn fill(
        &mut self,
        samples: &Samples,
        loaded: &[LoadedSample],
        edges: impl Iterator<Item = u32>,
    ) -> Result<(), (usize, String)> {
        self.edges.clear();
        self.edges.extend(edges);
        let mut of_task = [0u32; Task::ALL.len()];
        for sample in loaded {
            of_task[usize::from(sample.task.index())] += 1;
        }
        let n_tasks = of_task.iter().filter(|it| **it > 0).count();
        self.mixed.begin(cell(samples, self.edges.iter().copied().max().unwrap_or(0)));
        for (index, (sample, edge)) in loaded.iter().zip(&self.edges).enumerate() {
            if *edge < sample.n_images {
                return Err((index, format!("it has {} images, its edge is {edge}", sample.n_images)));
            }
            let share = loaded.len() as f64 / f64::from(of_task[usize::from(sample.task.index())]);
            let metadata = [f64::from(sample.n_first), share, n_tasks as f64];
            let side = samples.album().size();
            let image = |pixels| MixedImage { height: side, width: side, pixels };
            let images: Vec<_> = sample.pixels.chunks_exact(3 * (side * side) as usize).map(image).collect();
            let (id, task) = (index as u64, sample.task.index().into());
            let mixed = MixedSample {
                id,
                task,
                images: &images,
                tokens: &sample.tokens,
                labels: &[sample.label],
                metadata: &metadata,
            };
            self.mixed.push(&mixed).map_err(|error| (index, error.to_string()))?;
        }
        Ok(())
    }
}

const CONFIG: MixedConfig = MixedConfig { channels: 3, n_metadata: N_METADATA, padding_token: PADDING };

/// The largest step, and one of as many images that are samples of their own.
fn cells(samples: &Samples, largest: StepShape) -> [(u32, MixedShape); 2] {
    [(largest.samples, cell(samples, largest.edge)), (most_samples(largest), cell(samples, 1))]
}

fn most_samples(largest: StepShape) -> u32 {
    largest.samples.saturating_mul(largest.edge)
}

fn cell(samples: &Samples, images: u32) -> MixedShape {
    let side = samples.album().size();
    MixedShape { images, height: side, width: side, tokens: samples.max_words(), labels: 1 }
}

impl Source for SampleSource {
    type Item = LoadedSample;
    type Buffer = SampleBuffer;

    fn n_samples(&self) -> u64 {
        self.samples.train.len() as u64
    }

    fn lengths(&self) -> Lengths {
        Lengths::Known(self.index.clone())
    }

    fn read(&self, epoch: u64, id: u64) -> Result<LoadedSample, SourceError> {
        let sample = &self.samples.train[usize::try_from(id).unwrap_or(usize::MAX)];
        let mut chance = Chance::new(self.seed, epoch, id);
        let exchanged = sample.task == Task::Pair && chance.flip();
        let loaded = LoadedSample::read(&self.samples, sample, exchanged, Some(chance));
        loaded.map_err(|error| SourceError {
            sample_id: id,
            reason: format!("the decoded pixels of line {}: {error}", sample.line),
        })
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        let mixed = MixedBuffer::byte_capacity(CONFIG, &cells(&self.samples, largest));
        mixed.saturating_add(Bytes(4 * u64::from(most_samples(largest))))
    }

    fn buffer(&self, largest: StepShape) -> SampleBuffer {
        SampleBuffer::with_capacity(&self.samples, largest)
    }

    fn collate(&self, draw: &Draw, items: &[LoadedSample], buffer: &mut SampleBuffer) -> Result<(), SourceError> {
        let edges = draw.parts.iter().flat_map(|part| part.ids.iter().map(|_| part.edge));
        buffer
            .fill(&self.samples, items, edges)
            .map_err(|(index, reason)| SourceError { sample_id: draw.ids().nth(index).unwrap_or(u64::MAX), reason })
    }
}

impl Item for LoadedSample {
    fn length(&self) -> u32 {
        self.n_images
    }

    fn bytes(&self) -> Bytes {
        Bytes((self.pixels.len() + 4 * self.tokens.len() + size_of::<Self>()) as u64)
    }

    fn task(&self) -> u16 {
        self.task.index()
    }
}
