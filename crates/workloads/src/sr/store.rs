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
        let row_len = 3 * window.width as usize;
        for (row, into) in into.chunks_exact_mut(row_len).take(window.height as usize).enumerate() {
            let y = u64::from(window.y) + row as u64;
            let at = image.offset + 3 * (y * u64::from(image.width) + u64::from(window.x));
            read_exact_at(&self.file, into, at)?;
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

    #[test]
    fn a_window_of_a_later_image_is_what_was_stored() {
        let byte = |at: u32| u8::try_from(at).unwrap();
        let images = [(5, 4), (7, 6)].map(|(w, h)| RgbImage::from_fn(w, h, |x, y| image::Rgb([byte(x), byte(y), 9])));
        let mut store = PixelStore::create().unwrap();
        let [_, stored] = images.map(|it| store.push(&it).unwrap());
        let mut pixels = [0; 3 * 2 * 3];
        store.read(stored, Window { x: 4, y: 3, width: 2, height: 3 }, &mut pixels).unwrap();
        assert_eq!(pixels, [4, 3, 9, 5, 3, 9, 4, 4, 9, 5, 4, 9, 4, 5, 9, 5, 5, 9]);
    }
}
