//! PNG files.

use std::io::{BufRead, Seek};
use std::ops::ControlFlow;

use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageBuffer, RgbImage, RgbaImage};
use plimsoll_types::Bytes;
use png::{BitDepth, ColorType, Decoder, DecodingError, Reader, Transformations};

use super::{ImageFault, TakeRow, checked};

/// What decoding holds whatever the size of the image: tables, the window of the compression, and read-ahead.
const FIXED: u64 = 640 << 10;

/// Rows that decoding holds: unfiltered and filtered ones, one as it comes out and one as RGB.
const ROWS: u64 = 16;

pub(super) struct Head {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) needed: Bytes,
}

pub(super) fn look(file: impl BufRead + Seek) -> Result<Head, ImageFault> {
    let reader = reader(file)?;
    let (width, height) = checked(reader.info().width, reader.info().height)?;
    let row = reader.output_line_size(width).unwrap_or(usize::MAX) as u64;
    // Rows of an interlaced image are whole only in the end.
    let whole = if reader.info().interlaced { 2 * row.saturating_mul(u64::from(height)) } else { 0 };
    Ok(Head { width, height, needed: Bytes(FIXED.saturating_add(ROWS.saturating_mul(row)).saturating_add(whole)) })
}

pub(super) fn rows(file: impl BufRead + Seek, take: TakeRow<'_>) -> Result<(), ImageFault> {
    let mut reader = reader(file)?;
    let (width, form) = (reader.info().width, reader.output_color_type());
    if !reader.info().interlaced {
        while let Some(row) = reader.next_row().map_err(fault)? {
            if take(&rgb(row.data(), width, form)?).is_break() {
                return Ok(());
            }
        }
        return Ok(());
    }
    let n_bytes = reader.output_buffer_size().ok_or_else(|| ImageFault::Damaged("it is too large".to_owned()))?;
    let mut pixels = vec![0; n_bytes];
    let row_len = reader.next_frame(&mut pixels).map_err(fault)?.line_size;
    for row in pixels.chunks_exact(row_len) {
        if let ControlFlow::Break(()) = take(&rgb(row, width, form)?) {
            return Ok(());
        }
    }
    Ok(())
}

/// Opens a file as the image library does, but for texts and profiles, which nobody reads.
fn reader<R: BufRead + Seek>(file: R) -> Result<Reader<R>, ImageFault> {
    let mut decoder = Decoder::new(file);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    decoder.read_info().map_err(fault)
}

/// Turns a row into RGB by the rules of the image library.
fn rgb(row: &[u8], width: u32, form: (ColorType, BitDepth)) -> Result<Vec<u8>, ImageFault> {
    let wide = || row.as_chunks::<2>().0.iter().map(|it| u16::from_be_bytes(*it)).collect();
    let narrow = || row.to_vec();
    let image = match form {
        (ColorType::Rgb, BitDepth::Eight) => RgbImage::from_raw(width, 1, narrow()).map(DynamicImage::ImageRgb8),
        (ColorType::Rgba, BitDepth::Eight) => RgbaImage::from_raw(width, 1, narrow()).map(DynamicImage::ImageRgba8),
        (ColorType::Grayscale, BitDepth::Eight) => {
            GrayImage::from_raw(width, 1, narrow()).map(DynamicImage::ImageLuma8)
        }
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => {
            GrayAlphaImage::from_raw(width, 1, narrow()).map(DynamicImage::ImageLumaA8)
        }
        (ColorType::Rgb, BitDepth::Sixteen) => ImageBuffer::from_raw(width, 1, wide()).map(DynamicImage::ImageRgb16),
        (ColorType::Rgba, BitDepth::Sixteen) => ImageBuffer::from_raw(width, 1, wide()).map(DynamicImage::ImageRgba16),
        (ColorType::Grayscale, BitDepth::Sixteen) => {
            ImageBuffer::from_raw(width, 1, wide()).map(DynamicImage::ImageLuma16)
        }
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen) => {
            ImageBuffer::from_raw(width, 1, wide()).map(DynamicImage::ImageLumaA16)
        }
        _ => None,
    };
    let unknown = || ImageFault::Damaged(format!("its rows are of an unknown form, {form:?}"));
    Ok(image.ok_or_else(unknown)?.into_rgb8().into_raw())
}

fn fault(error: DecodingError) -> ImageFault {
    match error {
        DecodingError::IoError(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            ImageFault::Io(source)
        }
        error => ImageFault::Damaged(error.to_string()),
    }
}
