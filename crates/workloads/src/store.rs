//! What was decoded, in a file.

use std::fs::File;
use std::io;

use plimsoll_types::Bytes;

use crate::room::StoreConfig;

/// What was decoded, in a file without a name, which the system frees when the process is gone, however it ends.
///
/// A folder of any size takes no memory this way, and the system's page cache keeps what is used often.
#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    pub(crate) limit: Bytes,
}

/// Bytes that are read at once: as many whole rows as fit, because a call to the system costs as much as copying some
/// kilobytes.
const STRIP: usize = 16 << 10;

/// One image in the store, as rows of interleaved RGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: u64,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Stored {
    /// Returns the longer side in pixels.
    pub(crate) fn side(&self) -> u32 {
        self.width.max(self.height)
    }
}

/// A rectangle of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Window {
    pub(crate) fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0
    }
}

impl Store {
    /// Makes the file.
    pub(crate) fn create(config: &StoreConfig) -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(&config.folder)?, limit: config.limit })
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&self.file, bytes, at)
    }

    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        read_exact_at(&self.file, into, at)
    }

    /// Copies a window of an image into `into`, as rows of interleaved RGB.
    ///
    /// # Shapes
    ///
    /// - `into`: `[window.height, window.width, 3]`
    pub(crate) fn read_window(&self, image: Stored, window: Window, into: &mut [u8]) -> io::Result<()> {
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
fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, at)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => (bytes, at) = (&bytes[n..], at + n as u64),
        }
    }
    Ok(())
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
    use image::RgbImage;

    use super::*;

    /// Returns bytes that tell all pixels of an image apart.
    fn image(width: u32, height: u32) -> RgbImage {
        let pixel =
            |x: u32, y: u32| image::Rgb([x, y, (x * 31 + y * 17) % 251].map(|it| (it % 256).try_into().unwrap()));
        RgbImage::from_fn(width, height, pixel)
    }

    #[test]
    fn a_window_is_what_was_written() {
        // Narrow images are read in strips of many rows, the widest row by row.
        for (width, height) in [(7, 6), (200, 90), (2800, 40), (6000, 12)] {
            let (folder, image) = (tempfile::tempdir().unwrap(), image(width, height));
            let config = StoreConfig { folder: folder.path().to_owned(), limit: Bytes::MAX };
            let store = Store::create(&config).unwrap();
            let stored = Stored { offset: 60, width, height };
            store.write(stored.offset, image.as_raw()).unwrap();
            for window in [
                Window { x: 0, y: 0, width, height },
                Window { x: width - 4, y: 2, width: 4, height: height - 2 },
                Window { x: 1, y: height - 1, width: 3, height: 1 },
            ] {
                let Window { x, y, width, height } = window;
                let mut pixels = vec![0; 3 * (width * height) as usize];
                store.read_window(stored, window, &mut pixels).unwrap();
                let expected = image::imageops::crop_imm(&image, x, y, width, height).to_image().into_raw();
                assert!(pixels == expected, "{window:?} of {} × {}", stored.width, stored.height);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_has_no_name_and_no_other_store_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { folder: folder.path().to_owned(), limit: Bytes::MAX };
        let [one, other] = [7, 9].map(|byte| {
            let store = Store::create(&config).unwrap();
            store.write(0, &[byte; 12]).unwrap();
            store
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let (mut pixel, image) = ([0; 3], Stored { offset: 0, width: 2, height: 2 });
        for (store, byte) in [(one, 7), (other, 9)] {
            store.read_window(image, Window { x: 1, y: 1, width: 1, height: 1 }, &mut pixel).unwrap();
            assert_eq!(pixel, [byte; 3]);
        }
    }
}
