//! JPEG files.

use std::io::{self, BufRead, Read, Seek};

use plimsoll_types::Bytes;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::{ImageFault, TakeRow, checked};

/// What decoding holds whatever the size of the image: tables and read-ahead.
const FIXED: u64 = 384 << 10;

/// Rows of blocks that each component holds while it is decoded, upsampled and turned into RGB.
const ROWS_OF_BLOCKS: u64 = 4;

/// Values of a block, and bytes of a value before it is a pixel.
const BLOCK: u64 = 64;
const COEFFICIENT: u64 = 2;

/// What the head of a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Sampling factors of each component: horizontal, vertical.
    components: Vec<(u64, u64)>,
    /// Whether every scan has all that it needs for its rows; otherwise all coefficients are held until the end.
    is_sequential: bool,
    /// Bytes before the pixels: tables, profiles, previews.
    n_bytes: u64,
}

impl Head {
    /// Reads a file up to its first scan.
    pub(super) fn read(file: &mut (impl Read + Seek)) -> Result<Self, ImageFault> {
        file.seek_relative(2).map_err(fault)?;
        let (mut frame, mut is_progressive) = (None, false);
        loop {
            let marker = marker(file)?;
            if matches!(marker, 0x01 | 0xD0..=0xD7) {
                continue;
            }
            if marker == 0xD9 {
                return Err(ImageFault::Damaged("it ends before its pixels".to_owned()));
            }
            let rest = i64::from(number(file)?.saturating_sub(2));
            match (marker, &frame) {
                (0xC0..=0xCF, _) if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                    is_progressive = !matches!(marker, 0xC0 | 0xC1);
                    frame = Some(Frame::read(file, rest)?);
                }
                (0xDA, Some(Frame { width, height, components })) => {
                    let [n] = bytes(file)?;
                    return Ok(Self {
                        width: *width,
                        height: *height,
                        components: components.clone(),
                        is_sequential: !is_progressive && usize::from(n) == components.len(),
                        n_bytes: file.stream_position().map_err(fault)?,
                    });
                }
                _ => file.seek_relative(rest).map_err(fault)?,
            }
        }
    }

    pub(super) fn is_grey(&self) -> bool {
        self.components.len() == 1
    }

    /// Returns what decoding holds at most: the pixels, some rows of blocks, and all coefficients where it must.
    pub(super) fn needed(&self) -> Bytes {
        let [most_h, most_v] = [self.most(|it| it.0), self.most(|it| it.1)];
        let columns = u64::from(self.width).div_ceil(8 * most_h);
        let rows = u64::from(self.height).div_ceil(8 * most_v);
        let per_row: u64 = self.components.iter().map(|(h, v)| columns * h * v * BLOCK * COEFFICIENT).sum();
        let held = if self.is_sequential { 0 } else { rows * per_row };
        let upsampled = columns * most_h * most_v * BLOCK * COEFFICIENT * self.components.len() as u64;
        let pixels = u64::from(self.width) * u64::from(self.height) * if self.is_grey() { 1 } else { 3 };
        Bytes(FIXED + 2 * self.n_bytes + pixels + held + per_row + ROWS_OF_BLOCKS * upsampled)
    }

    fn most(&self, of: impl Fn(&(u64, u64)) -> u64) -> u64 {
        self.components.iter().map(of).max().unwrap_or(1).max(1)
    }
}

/// Size and components of an image.
struct Frame {
    width: u32,
    height: u32,
    components: Vec<(u64, u64)>,
}

impl Frame {
    fn read(file: &mut (impl Read + Seek), length: i64) -> Result<Self, ImageFault> {
        let [_depth] = bytes(file)?;
        let (height, width) = (number(file)?, number(file)?);
        let (width, height) = checked(width.into(), height.into())?;
        let [n] = bytes(file)?;
        let mut components = Vec::new();
        for _ in 0..n {
            let [_id, sampling, _table] = bytes(file)?;
            components.push((u64::from(sampling >> 4), u64::from(sampling & 15)));
        }
        file.seek_relative(length - 6 - 3 * i64::from(n)).map_err(fault)?;
        Ok(Self { width, height, components })
    }
}

/// Decodes a file with the options of the image library, but that pixels which are missing or broken are an error.
pub(super) fn rows(file: impl BufRead + Seek, width: u32, is_grey: bool, take: TakeRow<'_>) -> Result<(), ImageFault> {
    let color = if is_grey { ColorSpace::Luma } else { ColorSpace::RGB };
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX)
        .jpeg_set_out_colorspace(color);
    let mut decoder = JpegDecoder::new_with_options(file, options);
    let damaged = |error: zune_jpeg::errors::DecodeErrors| ImageFault::Damaged(error.to_string());
    decoder.decode_headers().map_err(damaged)?;
    decoder.set_options(options.set_strict_mode(true));
    let pixels = decoder.decode().map_err(damaged)?;
    let mut row = Vec::with_capacity(3 * width as usize);
    for line in pixels.chunks_exact(width as usize * color.num_components()) {
        row.clear();
        if is_grey {
            row.extend(line.iter().flat_map(|it| [*it; 3]));
        }
        if take(if is_grey { &row } else { line }).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the next marker, after whatever lies before it.
fn marker(file: &mut impl Read) -> Result<u8, ImageFault> {
    loop {
        let [mut byte] = bytes(file)?;
        if byte != 0xFF {
            continue;
        }
        while byte == 0xFF {
            [byte] = bytes(file)?;
        }
        if byte != 0 {
            return Ok(byte);
        }
    }
}

fn number(file: &mut impl Read) -> Result<u16, ImageFault> {
    Ok(u16::from_be_bytes(bytes(file)?))
}

fn bytes<const N: usize>(file: &mut impl Read) -> Result<[u8; N], ImageFault> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).map_err(fault)?;
    Ok(bytes)
}

fn fault(error: io::Error) -> ImageFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ImageFault::Damaged("it ends before its pixels".to_owned()),
        // A segment that says to be shorter than it is leads back before the start.
        io::ErrorKind::InvalidInput => ImageFault::Damaged("a segment has an impossible length".to_owned()),
        _ => ImageFault::Io(error),
    }
}
