//! Image files that the image library decodes as a whole.

use std::io::{BufRead, Seek};
use std::ops::ControlFlow;

use image::error::ImageError;
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use plimsoll_types::Bytes;

use super::{ImageFault, TakeRow, checked};

/// The formats; of an animation the first picture is taken.
pub(super) const FORMATS: [ImageFormat; 6] =
    [ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::Pnm, ImageFormat::Qoi, ImageFormat::Tiff];

/// What decoding holds whatever the size of the image: tables, palettes and read-ahead.
const FIXED: u64 = 1 << 20;

/// Bytes of a pixel in what decoders hold beside the picture: colour planes, or a canvas with transparency and the part
/// that is drawn onto it.
const SCRATCH: u64 = 8;

pub(super) struct Head {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) needed: Bytes,
}

/// Reads the head of a file of so many bytes.
pub(super) fn look(file: impl BufRead + Seek, n_bytes: u64, format: ImageFormat) -> Result<Head, ImageFault> {
    let decoder = decoder(file, format)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = checked(width, height)?;
    let n_pixels = u64::from(width) * u64::from(height);
    let converted = if decoder.color_type() == ColorType::Rgb8 { 0 } else { 3 };
    let picture = decoder.total_bytes();
    // Some decoders copy the picture as a whole.
    let scratch = n_pixels.saturating_mul(SCRATCH).max(picture);
    let parts = [n_bytes, picture, scratch, n_pixels.saturating_mul(converted)];
    let needed = parts.into_iter().fold(FIXED, u64::saturating_add);
    Ok(Head { width, height, needed: Bytes(needed) })
}

/// Decodes a file that was looked at, in no more than was found to be needed.
pub(super) fn rows(
    file: impl BufRead + Seek,
    needed: Bytes,
    format: ImageFormat,
    take: TakeRow<'_>,
) -> Result<(), ImageFault> {
    let mut decoder = decoder(file, format)?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(needed.0);
    decoder.set_limits(limits).map_err(fault)?;
    let image = DynamicImage::from_decoder(decoder).map_err(fault)?.into_rgb8();
    for row in image.as_raw().chunks_exact(3 * image.width() as usize) {
        if let ControlFlow::Break(()) = take(row) {
            break;
        }
    }
    Ok(())
}

fn decoder<'a>(file: impl BufRead + Seek + 'a, format: ImageFormat) -> Result<impl ImageDecoder + 'a, ImageFault> {
    let mut reader = ImageReader::with_format(file, format);
    // What is too large is refused by what it takes, not by the library.
    reader.no_limits();
    reader.into_decoder().map_err(fault)
}

fn fault(error: ImageError) -> ImageFault {
    match error {
        ImageError::IoError(source) if source.kind() == std::io::ErrorKind::PermissionDenied => ImageFault::Io(source),
        ImageError::Unsupported(error) => ImageFault::Unsupported(error.to_string()),
        error => ImageFault::Damaged(error.to_string()),
    }
}
