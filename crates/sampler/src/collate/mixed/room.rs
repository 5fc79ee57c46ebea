//! How many elements the padded blocks of a batch have.

use plimsoll_types::Bytes;

use super::shape::MixedShape;
use crate::CollateError;

/// Elements of each block, padding included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) samples: u64,
    pub(super) images: u64,
    pub(super) pixels: u64,
    pub(super) tokens: u64,
    pub(super) labels: u64,
}

impl Room {
    /// What so many samples take when each is padded to `cell`.
    pub(super) fn of(samples: u64, cell: MixedShape, channels: u32) -> Self {
        let product = |lengths: &[u32]| lengths.iter().fold(samples, |all, n| all.saturating_mul((*n).into()));
        Self {
            samples,
            images: product(&[cell.images]),
            pixels: product(&[cell.images, channels, cell.height, cell.width]),
            tokens: product(&[cell.tokens]),
            labels: product(&[cell.labels]),
        }
    }

    /// What the largest of these cells take, for each block.
    pub(super) fn for_all(cells: &[(u32, MixedShape)], channels: u32) -> Self {
        let rooms = cells.iter().map(|&(samples, cell)| Self::of(samples.into(), cell, channels));
        rooms.fold(Self::default(), |a, b| Self {
            samples: a.samples.max(b.samples),
            images: a.images.max(b.images),
            pixels: a.pixels.max(b.pixels),
            tokens: a.tokens.max(b.tokens),
            labels: a.labels.max(b.labels),
        })
    }

    /// Accepts a batch of this room, of which sample `id` is the last, into blocks of `most`.
    pub(super) fn within(self, most: Self, id: u64) -> Result<(), CollateError> {
        let blocks = [
            ("samples", self.samples, most.samples),
            ("samples × images", self.images, most.images),
            ("samples × images × channels × height × width", self.pixels, most.pixels),
            ("samples × tokens", self.tokens, most.tokens),
            ("samples × labels", self.labels, most.labels),
        ];
        let excess = blocks.into_iter().find(|(_, size, limit)| size > limit);
        excess.map_or(Ok(()), |(axis, size, limit)| Err(CollateError::DoesNotFit { id, axis, size, limit }))
    }

    /// The host memory that blocks of this room take, with so many numbers of metadata for each sample.
    pub(super) fn bytes(self, n_metadata: u32) -> Bytes {
        // Ids of 8 bytes, tasks of 4, a shape of 20 and numbers of 8; sizes of 8 and a mask of 1 for each image; a token
        // of 4 and its mask of 1; a label of 4.
        let sample = 8 + 4 + 20 + 8 * u64::from(n_metadata);
        [(self.samples, sample), (self.images, 8 + 1), (self.pixels, 1), (self.tokens, 4 + 1), (self.labels, 4)]
            .into_iter()
            .fold(Bytes(0), |sum, (elements, each)| sum.saturating_add(Bytes(elements).saturating_mul(each)))
    }
}
