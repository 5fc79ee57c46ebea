//! A sample before it has a place.

use super::shape::MixedShape;
use crate::CollateError;

/// One image, as planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedImage<'a> {
    /// Height in pixels.
    pub height: u32,
    /// Width in pixels.
    pub width: u32,
    /// `[channels, height, width]`, one byte for each value.
    pub pixels: &'a [u8],
}

/// A sample of any task: some images, tokens and labels, or none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MixedSample<'a> {
    /// Its id in the data set.
    pub id: u64,
    /// Its task.
    pub task: u32,
    /// Its images in order.
    pub images: &'a [MixedImage<'a>],
    /// Its token ids.
    pub tokens: &'a [u32],
    /// Its labels: one for each token, or one for the sample, as the task has it.
    pub labels: &'a [i32],
    /// Numbers about it, as many as the buffer was built for.
    pub metadata: &'a [f64],
}

impl MixedSample<'_> {
    /// Returns its length on every axis.
    pub fn shape(&self) -> MixedShape {
        let greatest = |size: fn(&MixedImage<'_>) -> u32| self.images.iter().map(size).max().unwrap_or(0);
        MixedShape {
            images: clamped(self.images.len()),
            height: greatest(|image| image.height),
            width: greatest(|image| image.width),
            tokens: clamped(self.tokens.len()),
            labels: clamped(self.labels.len()),
        }
    }

    /// Returns the sample with as many of its first images, tokens and labels as the cell of a batch holds.
    ///
    /// Images keep their height and width.
    #[must_use]
    pub fn truncated(self, cell: MixedShape) -> Self {
        Self {
            images: first(self.images, cell.images),
            tokens: first(self.tokens, cell.tokens),
            labels: first(self.labels, cell.labels),
            ..self
        }
    }

    /// Accepts a sample whose images have as many bytes, and which has as many numbers, as they must.
    pub(super) fn check(&self, channels: u32, n_metadata: u32) -> Result<(), CollateError> {
        for (index, image) in self.images.iter().enumerate() {
            let expected = u128::from(image.height) * u128::from(image.width) * u128::from(channels);
            if image.pixels.len() as u128 != expected {
                let (height, width, bytes) = (image.height, image.width, image.pixels.len());
                return Err(CollateError::ImageBytes { id: self.id, index, bytes, channels, height, width });
            }
        }
        if self.metadata.len() != n_metadata as usize {
            let (numbers, expected) = (self.metadata.len(), n_metadata);
            return Err(CollateError::MetadataCount { id: self.id, numbers, expected });
        }
        Ok(())
    }
}

fn clamped(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn first<T>(all: &[T], most: u32) -> &[T] {
    &all[..all.len().min(most as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGES: [MixedImage<'_>; 2] =
        [MixedImage { height: 2, width: 1, pixels: &[1, 2] }, MixedImage { height: 1, width: 3, pixels: &[3, 4, 5] }];

    #[test]
    fn the_shape_is_the_greatest_length_on_each_axis() {
        let sample = MixedSample { images: &IMAGES, tokens: &[7; 4], labels: &[1], ..MixedSample::default() };
        let shape = MixedShape { images: 2, height: 2, width: 3, tokens: 4, labels: 1 };
        assert_eq!(sample.shape(), shape);
        assert_eq!(MixedSample::default().shape(), MixedShape::default());
    }

    #[test]
    fn truncating_keeps_what_comes_first() {
        let sample = MixedSample { images: &IMAGES, tokens: &[7, 8, 9], labels: &[1], ..MixedSample::default() };
        let cut = sample.truncated(MixedShape { images: 1, tokens: 2, labels: 5, ..sample.shape() });
        assert_eq!(cut, MixedSample { images: &IMAGES[..1], tokens: &[7, 8], ..sample });
    }

    #[test]
    fn an_image_of_other_bytes_is_an_error_with_the_numbers() {
        let sample = MixedSample { id: 9, images: &IMAGES, ..MixedSample::default() };
        assert_eq!(sample.check(1, 0), Ok(()));
        let message = "collate sample 9: image 0 has 2 bytes, 3 channels of 2 × 1 px (height × width) take 6";
        assert_eq!(sample.check(3, 0).unwrap_err().to_string(), message);
        let message = "collate sample 9: it has 0 numbers of metadata, the buffer was built for 2";
        assert_eq!(sample.check(1, 2).unwrap_err().to_string(), message);
    }
}
