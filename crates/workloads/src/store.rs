//! Decoded pixels in a temporary file.

use std::fs::File;
use std::io::{self, Write};

use image::RgbImage;

/// Decoded images in a file without a name, which the system removes with the process.
///
/// A folder of any size takes no memory this way, and the system's page cache keeps what is used often.
#[derive(Debug)]
pub(crate) struct PixelStore {
    file: File,
    end: u64,
}

/// Bytes that are read at once: as many whole rows as fit, because a call to the system costs as much as copying some
/// kilobytes.
const STRIP: usize = 16 << 10;

/// One image in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    offset: u64,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// A rectangle of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl PixelStore {
    pub(crate) fn create() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, end: 0 })
    }

    pub(crate) fn push(&mut self, image: &RgbImage) -> io::Result<Stored> {
        let stored = Stored { offset: self.end, width: image.width(), height: image.height() };
        self.file.write_all(image.as_raw())?;
        self.end += image.as_raw().len() as u64;
        Ok(stored)
    }

    /// Copies a window into `into`, as rows of interleaved RGB.
    ///
    /// # Shapes
    ///
    /// - `into`: `[window.height, window.width, 3]`
    pub(crate) fn read(&self, image: Stored, window: Window, into: &mut [u8]) -> io::Result<()> {
        let (stride, row_len) = (3 * image.width as usize, 3 * window.width as usize);
        let rows_per_strip = (STRIP / stride).max(1);
        let mut strip = [0; STRIP];
        let mut at = image.offset + (u64::from(window.y) * stride as u64) + 3 * u64::from(window.x);
        for rows in into.chunks_mut(rows_per_strip * row_len) {
            if rows.len() == row_len {
                read_exact_at(&self.file, rows, at)?;
            } else {
                let whole = &mut strip[..(rows.len() / row_len - 1) * stride + row_len];
                read_exact_at(&self.file, whole, at)?;
                let cut = whole.chunks(stride).map(|row| &row[..row_len]);
                rows.chunks_exact_mut(row_len).zip(cut).for_each(|(row, cut)| row.copy_from_slice(cut));
            }
            at += (rows_per_strip * stride) as u64;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => (into, at) = (&mut into[n..], at + n as u64),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that tell all pixels of an image apart.
    fn image(width: u32, height: u32) -> RgbImage {
        let pixel =
            |x: u32, y: u32| image::Rgb([x, y, (x * 31 + y * 17) % 251].map(|it| (it % 256).try_into().unwrap()));
        RgbImage::from_fn(width, height, pixel)
    }

    #[test]
    fn a_window_of_a_later_image_is_what_was_stored() {
        // Narrow images are read in strips of many rows, the widest row by row.
        for (width, height) in [(7, 6), (200, 90), (2800, 40), (6000, 12)] {
            let (first, second) = (image(5, 4), image(width, height));
            let mut store = PixelStore::create().unwrap();
            store.push(&first).unwrap();
            let stored = store.push(&second).unwrap();
            for window in [
                Window { x: 0, y: 0, width, height },
                Window { x: width - 4, y: 2, width: 4, height: height - 2 },
                Window { x: 1, y: height - 1, width: 3, height: 1 },
            ] {
                let Window { x, y, width, height } = window;
                let mut pixels = vec![0; 3 * (width * height) as usize];
                store.read(stored, window, &mut pixels).unwrap();
                let expected = image::imageops::crop_imm(&second, x, y, width, height).to_image().into_raw();
                assert!(pixels == expected, "{window:?} of {} × {}", stored.width, stored.height);
            }
        }
    }
}
