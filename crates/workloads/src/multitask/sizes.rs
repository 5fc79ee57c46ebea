//! The sizes of a batch.

use std::ops::Range;

use plimsoll_types::Extent;

/// What all batches have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Side of an image in pixels.
    pub(crate) image: usize,
    /// The most token ids of a text.
    pub(crate) words: usize,
    /// Outputs of each task's head.
    pub(crate) outputs: Vec<usize>,
}

impl Sizes {
    /// Returns where the outputs of a task are among those of all.
    pub(crate) fn outputs_of(&self, task: u16) -> Range<usize> {
        let start = self.outputs[..usize::from(task)].iter().sum();
        start..start + self.outputs[usize::from(task)]
    }

    /// Returns how many outputs all heads have together.
    pub(super) fn n_outputs(&self) -> usize {
        self.outputs.iter().sum()
    }
}

/// Returns how many images and words samples of an extent are padded to.
pub(crate) fn images_and_words(extent: Extent) -> [usize; 2] {
    [0, 1].map(|axis| extent.edges().get(axis).map_or(1, |edge| *edge as usize))
}

/// Returns the extent of samples that are padded to so many images and words, at least one of each.
pub(crate) fn of_images_and_words(images: u32, words: u32) -> Extent {
    let extent = Extent::try_new(&[images.max(1), words.max(1)]);
    extent.unwrap_or_else(|error| unreachable!("two edges, of which none is 0: {error}"))
}

/// Returns a size in the 32 bits that the sampler counts with.
pub(super) fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
