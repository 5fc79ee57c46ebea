//! The sizes of a batch.

use std::ops::Range;

use plimsoll_types::Extent;

/// What all batches have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// What becomes of images.
    pub(crate) image: Fit,
    /// The most token ids of a text.
    pub(crate) words: usize,
    /// Outputs of each task's head.
    pub(crate) outputs: Vec<usize>,
}

/// What size images become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// In pixels, of each side, or where an image keeps its shape the most of the longer one.
    pub(crate) side: u32,
    /// Whether an image keeps its shape, and its size where that is no larger.
    pub(crate) keeps_shape: bool,
}

/// What the samples of a batch are padded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Padded {
    pub(crate) images: usize,
    pub(crate) words: usize,
    /// Pixels of each side of an image.
    pub(crate) side: usize,
}

impl Sizes {
    /// Returns where the outputs of a task are among those of all.
    pub(crate) fn outputs_of(&self, task: u16) -> Range<usize> {
        let start = self.outputs[..usize::from(task)].iter().sum();
        start..start + self.outputs[usize::from(task)]
    }

    /// Names what the edges of an extent count.
    pub(super) fn unit(&self) -> &'static str {
        if self.image.keeps_shape { "images × words × pixels" } else { "images × words" }
    }

    /// Returns how many outputs all heads have together.
    pub(super) fn n_outputs(&self) -> usize {
        self.outputs.iter().sum()
    }
}

impl Fit {
    /// Returns the width and the height of an image that has these in its file.
    pub(crate) fn of(self, (width, height): (u32, u32)) -> (u32, u32) {
        let (Self { side, keeps_shape }, longer) = (self, width.max(height));
        match (keeps_shape, longer <= side) {
            (false, _) => (side, side),
            (true, true) => (width, height),
            (true, false) => {
                // To the nearest pixel.
                let scaled = |it: u32| (u64::from(it) * u64::from(side) + u64::from(longer) / 2) / u64::from(longer);
                let [width, height] = [width, height].map(|it| u32::try_from(scaled(it)).unwrap_or(side).max(1));
                (width, height)
            }
        }
    }

    /// Returns the extent of samples with so many images and words, at least one of each, and where images keep their shapes, sides
    /// of up to so many pixels.
    pub(crate) fn extent(self, images: u32, words: u32, side: u32) -> Extent {
        let edges = [images, words, side].map(|it| it.max(1));
        let extent = Extent::try_new(if self.keeps_shape { &edges } else { &edges[..2] });
        extent.unwrap_or_else(|error| unreachable!("two or three edges, of which none is 0: {error}"))
    }

    /// Returns what samples of an extent are padded to.
    pub(crate) fn padded(self, extent: Extent) -> Padded {
        let along = |axis: usize| extent.edges().get(axis).map_or(1, |edge| *edge as usize);
        let side = if self.keeps_shape { along(2) } else { self.side as usize };
        Padded { images: along(0), words: along(1), side }
    }
}

/// Returns a size in the 32 bits that the sampler counts with.
pub(super) fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_keeps_its_shape_is_shrunk_to_the_longest_side_and_never_enlarged() {
        let fit = |size| Fit { side: 32, keeps_shape: true }.of(size);
        assert_eq!([fit((20, 9)), fit((32, 32)), fit((1, 1))], [(20, 9), (32, 32), (1, 1)]);
        assert_eq!([fit((64, 48)), fit((48, 64)), fit((100, 33))], [(32, 24), (24, 32), (32, 11)]);
        assert_eq!(fit((8000, 3)), (32, 1));
        assert_eq!(fit((u32::MAX, u32::MAX)), (32, 32));
        assert_eq!(Fit { side: 32, keeps_shape: false }.of((20, 9)), (32, 32));
    }

    #[test]
    fn an_extent_has_a_third_axis_where_images_keep_their_shapes() {
        let [square, shaped] = [false, true].map(|keeps_shape| Fit { side: 32, keeps_shape });
        assert_eq!((square.extent(3, 0, 20).edges(), shaped.extent(3, 0, 20).edges()), (&[3, 1][..], &[3, 1, 20][..]));
        assert_eq!(square.padded(square.extent(3, 4, 20)), Padded { images: 3, words: 4, side: 32 });
        assert_eq!(shaped.padded(shaped.extent(3, 4, 20)), Padded { images: 3, words: 4, side: 20 });
    }
}
