//! The size of the model.

/// Size of a [`FusionModel`](super::FusionModel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusionConfig {
    /// Channels after the first convolution of the image encoder, which the next two double; 16 by default.
    pub channels: usize,
    /// Features of an image, of a text, and of both together; a multiple of 4, 64 by default.
    pub features: usize,
    /// Whether it counts where in an image something is, as in letters; not by default, since few photographs teach it
    /// wrongly. Places of images that keep their own shapes do not count in any case: no two have the same.
    pub has_places: bool,
}

impl Default for FusionConfig {
    fn default() -> Self {
        Self { channels: 16, features: 64, has_places: false }
    }
}
