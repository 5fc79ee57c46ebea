//! How a folder of images is read.

use std::path::PathBuf;

use crate::room::Room;
use crate::split::Shares;

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct PhotosConfig {
    /// The folder, read recursively.
    pub folder: PathBuf,
    /// The parts of the images that are held out.
    pub shares: Shares,
    /// What to do about damaged images.
    pub bad_image: BadImage,
    /// The smallest patch that will be cut, in pixels at the input resolution.
    pub smallest_patch: u32,
    /// What loading may use.
    pub room: Room,
}

/// What to do about an image that is damaged, too small or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadImage {
    /// Refuse the folder.
    Fail,
    /// Leave the image out, and say so.
    Skip,
}
