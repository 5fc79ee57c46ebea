//! A sample with its images on the host.

use std::io;

use plimsoll_train::Item;
use plimsoll_types::{Bytes, Extent};

use super::augment::{Augmentation, warped};
use super::lines::Asks;
use super::sample::{Sample, Shown};
use super::samples::Samples;
use super::sizes::{narrow, of_images_and_words};
use super::standard::Standard;
use crate::chance::Chance;
use crate::store::Stored;

/// A sample on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSample {
    /// The number of its task.
    pub(super) task: u16,
    n_images: u32,
    /// Images of the group that is shown first.
    pub(super) n_first: u32,
    /// `[n_images, 3, size, size]`.
    pub(super) pixels: Vec<u8>,
    /// Of each image.
    pub(super) standards: Vec<Standard>,
    pub(super) tokens: Vec<u32>,
    pub(super) label: i32,
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
    pub(super) fn trained(
        samples: &Samples,
        sample: &Sample,
        by: Augmentation,
        mut chance: Chance,
    ) -> io::Result<Self> {
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
