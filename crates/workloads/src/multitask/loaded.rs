//! A sample with its images on the host.

use std::io;

use plimsoll_sampler::MixedImage;
use plimsoll_train::Item;
use plimsoll_types::{Bytes, Extent};

use super::album::Decoded;
use super::augment::{Augmentation, warped};
use super::lines::Asks;
use super::sample::{Sample, Shown};
use super::samples::Samples;
use super::sizes::{Fit, narrow};
use super::standard::Standard;
use crate::chance::Chance;
use crate::store::Stored;

/// A sample on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSample {
    /// The number of its task.
    pub(super) task: u16,
    /// Images of the group that is shown first.
    pub(super) n_first: u32,
    images: Vec<Planes>,
    extent: Extent,
    pub(super) tokens: Vec<u32>,
    pub(super) label: i32,
}

/// An image as planes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planes {
    /// Width and height in pixels.
    size: (u32, u32),
    /// `[3, height, width]`.
    pixels: Vec<u8>,
    pub(super) standard: Standard,
}

impl LoadedSample {
    /// Reads a held-out sample as it is; a pair is shown the other way round where that is asked for.
    pub(crate) fn held_out(samples: &Samples, sample: &Sample, exchanged: bool) -> io::Result<Self> {
        let planes = |stored: &Stored| samples.album().read(*stored).map(|it| Planes::of(&it));
        let images = shown(sample, exchanged).flat_map(|group| &group.images).map(planes).collect::<Result<_, _>>();
        Ok(Self::new(samples, sample, exchanged, images?))
    }

    /// Takes a sample whose label nobody knows: its groups of images in the order in which they are shown.
    pub(crate) fn asked(task: u16, fit: Fit, groups: &[Vec<Decoded>], tokens: Vec<u32>) -> Self {
        let n_first = groups.first().map_or(0, Vec::len);
        let images: Vec<_> = groups.iter().flatten().map(Planes::of).collect();
        let extent = extent(fit, &images, &tokens);
        Self { task, n_first: narrow(n_first), images, extent, tokens, label: 0 }
    }

    /// Stands for a sample that another rank reads.
    pub(super) const fn elsewhere(task: u16, extent: Extent) -> Self {
        Self { task, n_first: 0, images: Vec::new(), extent, tokens: Vec::new(), label: 0 }
    }

    /// Reads a sample with other images of the same subjects, where its answer is no label, each a little changed; two groups
    /// whose order is asked for may be exchanged.
    pub(super) fn trained(
        samples: &Samples,
        sample: &Sample,
        by: Augmentation,
        mut chance: Chance,
    ) -> io::Result<Self> {
        let exchanged = samples.asks(sample) == Asks::Order && chance.flip();
        let mut images = Vec::with_capacity(sample.n_images() as usize);
        for group in shown(sample, exchanged) {
            let pool = if samples.draws_anew(sample) { samples.pool(group.subject) } else { &group.images };
            for stored in chance.some_of(pool, group.images.len()) {
                let Decoded { size, rows } = samples.album().read(stored)?;
                let sides = [size.0 as usize, size.1 as usize];
                images.push(Planes::new(size, warped(&rows, sides, by, &mut chance)));
            }
        }
        Ok(Self::new(samples, sample, exchanged, images))
    }

    /// Returns the number of the right answer.
    pub(crate) fn label(&self) -> usize {
        usize::try_from(self.label).unwrap_or(0)
    }

    /// Returns its images.
    pub(super) fn images(&self) -> &[Planes] {
        &self.images
    }

    fn new(samples: &Samples, sample: &Sample, exchanged: bool, images: Vec<Planes>) -> Self {
        let n_first = shown(sample, exchanged).next().map_or(0, |group| group.images.len());
        let label = if samples.asks(sample) == Asks::Order { usize::from(exchanged) } else { sample.answer };
        Self {
            task: sample.task,
            n_first: narrow(n_first),
            extent: extent(samples.album().fit(), &images, &sample.tokens),
            images,
            tokens: sample.tokens.clone(),
            label: i32::try_from(label).unwrap_or(i32::MAX),
        }
    }
}

impl Planes {
    fn new(size: (u32, u32), pixels: Vec<u8>) -> Self {
        Self { size, standard: Standard::of(&pixels), pixels }
    }

    fn of(Decoded { size, rows }: &Decoded) -> Self {
        Self::new(*size, planar(rows).collect())
    }

    pub(super) fn mixed(&self) -> MixedImage<'_> {
        MixedImage { height: self.size.1, width: self.size.0, pixels: &self.pixels }
    }
}

/// Returns the lengths of a sample of these images and words.
fn extent(fit: Fit, images: &[Planes], tokens: &[u32]) -> Extent {
    let side = images.iter().map(|it| it.size.0.max(it.size.1)).max();
    fit.extent(narrow(images.len()), narrow(tokens.len()), side.unwrap_or(1))
}

/// Returns the groups of a sample in the order in which they are shown.
fn shown(sample: &Sample, exchanged: bool) -> impl Iterator<Item = &Shown> {
    let n = sample.groups.len();
    (0..n).map(move |at| &sample.groups[if exchanged { n - 1 - at } else { at }])
}

/// Returns rows of interleaved RGB as planes.
fn planar(rows: &[u8]) -> impl Iterator<Item = u8> {
    (0..3).flat_map(move |channel| rows.iter().skip(channel).step_by(3).copied())
}

impl Item for LoadedSample {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn bytes(&self) -> Bytes {
        let of_images = self.images.iter().map(|it| it.pixels.len() + size_of::<Planes>()).sum::<usize>();
        Bytes((of_images + 4 * self.tokens.len() + size_of::<Self>()) as u64)
    }

    fn task(&self) -> u16 {
        self.task
    }
}
