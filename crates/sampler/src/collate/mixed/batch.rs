//! What a model is given.

use super::shape::MixedShape;

/// A batch in host memory; every block is contiguous.
///
/// # Shapes
///
/// `n` samples, padded to the `cell`'s `images`, `height`, `width`, `tokens` and `labels`:
///
/// * [`pixels`](Self::pixels): `[n, images, channels, height, width]`.
/// * [`image_mask`](Self::image_mask) and [`image_sizes`](Self::image_sizes): `[n, images]`.
/// * [`tokens`](Self::tokens) and [`attention_mask`](Self::attention_mask): `[n, tokens]`.
/// * [`labels`](Self::labels): `[n, labels]`.
/// * [`ids`](Self::ids), [`tasks`](Self::tasks) and [`lengths`](Self::lengths): `[n]`.
/// * [`metadata`](Self::metadata): `[n, n_metadata]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedBatch<'a> {
    /// What every sample is padded to.
    pub cell: MixedShape,
    /// The samples' ids.
    pub ids: &'a [u64],
    /// The samples' tasks.
    pub tasks: &'a [u32],
    /// The samples' own lengths, before padding.
    pub lengths: &'a [MixedShape],
    /// Bytes of planar images; each lies at the top left of its place, the rest is 0.
    pub pixels: &'a [u8],
    /// Which images are real.
    pub image_mask: &'a [bool],
    /// Height and width of each image in pixels, before padding; 0 where there is none.
    pub image_sizes: &'a [[u32; 2]],
    /// Token ids, then the padding token.
    pub tokens: &'a [u32],
    /// Which tokens are real.
    pub attention_mask: &'a [bool],
    /// Labels, then [`IGNORED_LABEL`](crate::IGNORED_LABEL).
    pub labels: &'a [i32],
    /// Numbers about each sample.
    pub metadata: &'a [f64],
}

impl MixedBatch<'_> {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
