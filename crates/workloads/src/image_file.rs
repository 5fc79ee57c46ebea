//! Decoding an image file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use image::{ImageError, ImageFormat, ImageReader, RgbImage};

/// Why a file gives no image.
#[derive(Debug)]
pub(crate) enum ImageFault {
    /// It cannot be read.
    Io(io::Error),
    /// It is no PNG or JPEG image.
    Foreign,
    /// It is one, and broken.
    Damaged(String),
}

/// Decodes a file by its content, whatever its name.
pub(crate) fn decode(path: &Path) -> Result<RgbImage, ImageFault> {
    let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format).map_err(ImageFault::Io)?;
    let is_known = matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg));
    if !is_known || !has_signature(path).map_err(ImageFault::Io)? {
        return Err(ImageFault::Foreign);
    }
    reader.decode().map(image::DynamicImage::into_rgb8).map_err(|error| match error {
        ImageError::IoError(source) if source.kind() == io::ErrorKind::PermissionDenied => ImageFault::Io(source),
        error => ImageFault::Damaged(error.to_string()),
    })
}

/// Whether the file begins as a PNG or JPEG does; the reader falls back to the file's name, which may lie.
fn has_signature(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(16);
    File::open(path)?.take(16).read_to_end(&mut start)?;
    Ok(image::guess_format(&start).is_ok())
}
