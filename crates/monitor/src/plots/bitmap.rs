//! The drawing as a PNG: drawn larger than shown, then averaged.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use plotters::prelude::*;

use super::canvas::Quirks;
use super::{Figure, SCALE, SIZE, draw, large};

/// Pixels of the finished picture that are averaged together, a divisor of its width.
const BLOCK: usize = 16;
/// Bytes of a pixel: red, green and blue.
const PIXEL: usize = 3;

/// Draws a figure and encodes it.
pub(super) fn png(figure: &impl Figure) -> Vec<u8> {
    let (width, height) = large();
    // Plain bytes, white at once: to draw a rectangle of this size takes as long as the rest of the drawing.
    let mut pixels = vec![u8::MAX; PIXEL * width as usize * height as usize];
    draw(figure, Quirks::BITMAP, BitMapBackend::with_buffer(&mut pixels, (width, height)));
    let mut file = Vec::new();
    // Large areas of one colour: half the size of the encoder's default, in half the time.
    PngEncoder::new_with_quality(&mut file, CompressionType::Default, FilterType::NoFilter)
        .write_image(&shrink(&pixels, PIXEL * width as usize), SIZE.0, SIZE.1, ExtendedColorType::Rgb8)
        .expect("a picture of a fixed size is encoded in memory");
    file
}

/// Averages squares of [`SCALE`] pixels, given the bytes of a row; blocks of one colour, which are most of a picture,
/// are copied.
fn shrink(pixels: &[u8], row: usize) -> Vec<u8> {
    const SCALED: usize = SCALE as usize;
    let mut small = Vec::with_capacity(pixels.len() / (SCALED * SCALED));
    for rows in pixels.chunks_exact(SCALED * row) {
        for start in (0..row).step_by(PIXEL * BLOCK * SCALED) {
            let block: [&[u8]; SCALED] = std::array::from_fn(|it| &rows[it * row + start..][..PIXEL * BLOCK * SCALED]);
            let first = block[0];
            if block.iter().all(|it| *it == first) && first[PIXEL..] == first[..first.len() - PIXEL] {
                small.extend_from_slice(&first[..PIXEL * BLOCK]);
            } else {
                small.extend((0..PIXEL * BLOCK).map(|it| average(&block, it / PIXEL * PIXEL * SCALED + it % PIXEL)));
            }
        }
    }
    small
}

/// Averages one channel of a square, whose upper left pixel has it at this byte of each row.
#[expect(clippy::cast_possible_truncation, reason = "an average of bytes is a byte")]
fn average(rows: &[&[u8]], byte: usize) -> u8 {
    let sum: u32 =
        rows.iter().map(|row| (0..rows.len()).map(|it| u32::from(row[byte + it * PIXEL])).sum::<u32>()).sum();
    (sum / (SCALE * SCALE)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: usize = 2 * PIXEL * BLOCK * SCALE as usize;

    #[test]
    fn squares_are_averaged_channel_by_channel() {
        let pixels: Vec<u8> = (0..=u8::MAX).cycle().take(2 * ROW).collect();
        let small = shrink(&pixels, ROW);
        let at = |x: usize, y: usize, channel: usize| u32::from(pixels[y * ROW + PIXEL * x + channel]);
        for (index, it) in small.iter().enumerate() {
            let (x, channel) = (index / PIXEL, index % PIXEL);
            let sum =
                at(2 * x, 0, channel) + at(2 * x + 1, 0, channel) + at(2 * x, 1, channel) + at(2 * x + 1, 1, channel);
            assert_eq!(u32::from(*it), sum / 4, "pixel {x}, channel {channel}");
        }
        assert_eq!(small.len(), pixels.len() / 4);
    }

    #[test]
    fn a_colour_stays_and_one_other_pixel_shows() {
        let mut pixels = [10, 20, 30].repeat(2 * ROW / PIXEL);
        assert_eq!(shrink(&pixels, ROW), [10, 20, 30].repeat(2 * BLOCK));
        pixels[2 * ROW - 1] = 130;
        let small = shrink(&pixels, ROW);
        assert_eq!(small[small.len() - 2 * PIXEL..], [10, 20, 30, 10, 20, 55]);
    }
}
