//! How the samples of a folder are read.

use std::path::PathBuf;

use plimsoll_sampler::Admit;
use plimsoll_train::BadSample;

use super::sizes::Fit;
use crate::room::Room;
use crate::split::Shares;

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplesConfig {
    /// The folder, with a file `samples.jsonl`.
    pub folder: PathBuf,
    /// Side in pixels of the squares that all images become, or the longest side of those that keep their shapes; 32 by default.
    pub image_size: u32,
    /// Whether images keep their shapes, and their sizes where they are no larger: a batch pads them to the longest side of its
    /// samples, which changes no result. Not by default.
    pub own_sizes: bool,
    /// The most words of a text that are read; 24 by default, more than any text of the data packs has.
    pub max_words: u32,
    /// The parts of each subject's images that are held out; 0.2 to validate on by default, and none to test on.
    pub shares: Shares,
    /// Which samples take part, by their images: to train on, and held out.
    pub lengths: Admit,
    /// What becomes of a line that makes no sample, or whose images cannot be used.
    pub bad_sample: BadSample,
    /// What loading may use.
    pub room: Room,
}

impl SamplesConfig {
    /// Reads this folder as it is done by default.
    pub fn new(folder: PathBuf, room: Room) -> Self {
        let (shares, lengths) = (Shares::validating(0.2), Admit::default());
        let bad_sample = BadSample::Fail;
        Self { folder, image_size: 32, own_sizes: false, max_words: 24, shares, lengths, bad_sample, room }
    }

    /// Returns what size images become.
    pub(super) const fn fit(&self) -> Fit {
        Fit { side: self.image_size, keeps_shape: self.own_sizes }
    }
}
