//! What the images of a folder are, and what is wrong with some.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_types::Bytes;

use super::config::PhotosConfig;
use super::gallery::{needed, stored_bytes};
use super::model::SCALE;
use crate::files::FolderError;
use crate::image_file::{FORMATS, ImageFault, ImageFile};
use crate::survey::AboutFolder;
use crate::watch::Interrupted;

/// Why a folder makes no data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder's files cannot be listed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file cannot be read.
    #[error("read {}: {source}; repair or remove it, or set `data.bad_sample = \"skip\"`", path.display())]
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
    /// A file is no image.
    #[error("decode {}: it is no {FORMATS} image", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Too few images are left.
    #[error(
        "find images in {}: {found} of {files} files are images that can be used ({FORMATS}), at least 2 are \
         needed (one to train on, one to validate on){}",
        folder.display(), first_of(skipped)
    )]
    TooFew {
        /// The folder.
        folder: PathBuf,
        /// Images that can be used.
        found: usize,
        /// Files in the folder.
        files: usize,
        /// Files that were left out, each with the reason.
        skipped: Vec<String>,
    },
    /// An image is smaller than the smallest patch.
    #[error(
        "use {}: it has {width} × {height} pixels, the smallest patch of {patch} needs at least {needed} × {needed}; \
         remove it, set `data.bad_sample = \"skip\"`, or lower `batch.patch_min`, and \
         `batch.patch_multiple` where it is larger, to at most {}",
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
    /// An image takes more memory to decode than there is.
    #[error(
        "load {}: to decode its {width} × {height} pixels takes {needed}, and {left} are left; a capacity of at least {capacity}, \
         a smaller image{} would help, or set `data.bad_sample = \"skip\"`",
        path.display(), if *is_whole { " or one saved as PNG, which is decoded row by row," } else { "" }
    )]
    TooLarge {
        /// The image.
        path: PathBuf,
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
        /// What decoding holds at most.
        needed: Bytes,
        /// What there is for it.
        left: Bytes,
        /// The capacity that would do, for this image or for all of the folder.
        capacity: Bytes,
        /// Whether its format is decoded as a whole.
        is_whole: bool,
    },
    /// An image alone is more than decoded pixels may take.
    #[error(
        "keep the pixels of {}: they take {needed}, and `data.store_limit` is {limit}; raise it, or set \
         `data.bad_sample = \"skip\"`",
        path.display()
    )]
    StoreTooSmall {
        /// The image.
        path: PathBuf,
        /// What its pixels take in both resolutions.
        needed: Bytes,
        /// What all may take.
        limit: Bytes,
    },
    /// Decoded pixels cannot be kept.
    #[error("keep decoded images in {}: {source}", folder.display())]
    Store {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Whoever watches has asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl AboutFolder for DataError {
    fn is_about_folder(&self) -> bool {
        matches!(self, Self::TooFew { .. })
    }
}

fn first_of(skipped: &[String]) -> String {
    skipped.first().map_or_else(String::new, |it| format!("; the first that cannot is {it}"))
}

/// Looks at a file, and refuses what cannot be used before it is decoded.
pub(crate) fn look(path: &Path, config: &PhotosConfig) -> Result<ImageFile, DataError> {
    let file = ImageFile::look(path).map_err(|fault| data_error(path, fault))?;
    let (path, width, height) = (path.to_owned(), file.width, file.height);
    let smallest = config.smallest_patch;
    if width.min(height) / SCALE < smallest {
        return Err(DataError::TooSmall {
            path,
            width,
            height,
            patch: smallest,
            needed: smallest.saturating_mul(SCALE),
        });
    }
    let (needed, left) = (needed(&file), config.room.left());
    if left < needed {
        let (capacity, is_whole) = (config.room.capacity_for(needed), file.is_decoded_whole());
        return Err(DataError::TooLarge { path, width, height, needed, left, capacity, is_whole });
    }
    let (needed, limit) = (stored_bytes(&file), config.room.store.limit);
    if limit < needed {
        return Err(DataError::StoreTooSmall { path, needed, limit });
    }
    Ok(file)
}

/// Says what is wrong with a file.
pub(crate) fn data_error(path: &Path, fault: ImageFault) -> DataError {
    let path = path.to_owned();
    match fault {
        ImageFault::Io(source) => DataError::Io { path, source },
        ImageFault::Damaged(reason) => DataError::Damaged { path, reason },
        ImageFault::Unsupported(_) => DataError::Damaged { path, reason: fault.to_string() },
        ImageFault::Foreign => DataError::Foreign { path },
    }
}

impl DataError {
    /// Raises the capacity that would do to what all of these files would need.
    pub(crate) fn for_all<'a>(self, paths: impl Iterator<Item = &'a PathBuf>, config: &PhotosConfig) -> Self {
        let Self::TooLarge { path, width, height, needed: own, left, is_whole, .. } = self else { return self };
        let most = paths.filter_map(|path| ImageFile::look(path).ok()).map(|file| needed(&file)).max();
        let capacity = config.room.capacity_for(most.unwrap_or(own).max(own));
        Self::TooLarge { path, width, height, needed: own, left, capacity, is_whole }
    }

    /// Says why a file is left out; `None` for what is wrong with more than the file.
    pub(crate) fn reason_to_skip(&self) -> Option<String> {
        match self {
            Self::Foreign { .. } => Some(format!("no {FORMATS} image")),
            Self::Damaged { reason, .. } => Some(format!("damaged: {reason}")),
            Self::Io { source, .. } => Some(source.to_string()),
            Self::TooSmall { width, height, .. } => Some(format!("{width} × {height} pixels are too few")),
            Self::TooLarge { width, height, needed, left, .. } => {
                Some(format!("to decode {width} × {height} pixels takes {needed}, and {left} are left"))
            }
            Self::StoreTooSmall { needed, limit, .. } => Some(format!("its pixels take {needed} of {limit}")),
            _ => None,
        }
    }

    /// Whether the file is no image at all, and so nobody's mistake.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }
}
