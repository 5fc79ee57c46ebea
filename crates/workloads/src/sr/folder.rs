//! Decoding the images of a folder.

use std::io;
use std::path::{Path, PathBuf};

use image::RgbImage;

use crate::files::FolderError;
use crate::image_file::{self, ImageFault};

/// What to do about an image that is damaged or too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadImage {
    /// Refuse the folder.
    Fail,
    /// Leave the image out, and say so.
    Skip,
}

/// Why a folder makes no data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder's files cannot be listed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file cannot be read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An image is damaged.
    #[error("decode {}: {reason}; repair or remove it, or set `data.bad_sample = \"skip\"`", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Too few images are left.
    #[error(
        "find images in {}: {found} of {files} files are PNG or JPEG images that can be used, at least 2 are needed \
         (one to train on, one to validate on)",
        folder.display()
    )]
    TooFew {
        /// The folder.
        folder: PathBuf,
        /// Images that can be used.
        found: usize,
        /// Files in the folder.
        files: usize,
    },
    /// An image is smaller than the smallest patch.
    #[error(
        "use {}: it has {width} × {height} pixels, the smallest patch of {patch} needs at least {needed} × {needed}; \
         remove it, set `data.bad_sample = \"skip\"`, or set `batch.patch_min` to at most {}",
        path.display(),
        (width).min(height) / 2
    )]
    TooSmall {
        /// The image.
        path: PathBuf,
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
        /// The smallest patch, in pixels at the input resolution.
        patch: u32,
        /// The smallest side that would do.
        needed: u32,
    },
    /// Decoded pixels cannot be kept.
    #[error("keep decoded images in a temporary file in {}: {source}", folder.display())]
    Store {
        /// The temporary folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A file, decoded or not.
pub(crate) enum Decoded {
    Image(RgbImage),
    /// Left out, with the reason.
    Skipped(String),
}

/// Decodes a file by its content, whatever its name; a file that is no PNG or JPEG is skipped.
pub(crate) fn decode(path: &Path, bad_image: BadImage) -> Result<Decoded, DataError> {
    match (image_file::decode(path), bad_image) {
        (Ok(image), _) => Ok(Decoded::Image(image)),
        (Err(ImageFault::Foreign), _) => Ok(Decoded::Skipped("no PNG or JPEG image".to_owned())),
        (Err(ImageFault::Io(source)), _) => Err(DataError::Io { path: path.to_owned(), source }),
        (Err(ImageFault::Damaged(reason)), BadImage::Skip) => Ok(Decoded::Skipped(format!("damaged: {reason}"))),
        (Err(ImageFault::Damaged(reason)), BadImage::Fail) => Err(DataError::Damaged { path: path.to_owned(), reason }),
    }
}
