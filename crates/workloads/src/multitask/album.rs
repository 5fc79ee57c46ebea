//! The images of a folder, as squares of one size.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use plimsoll_types::Bytes;

use super::samples_config::SamplesConfig;
use crate::image_file::{ImageFault, ImageFile};
use crate::resample::{Filter, Resampler};
use crate::room::Room;
use crate::store::{PixelStore, Stored, Window};

/// Images that were decoded once, by their path below the folder.
#[derive(Debug)]
pub(crate) struct Album {
    folder: PathBuf,
    size: u32,
    room: Room,
    /// What became of each image that was asked for.
    images: BTreeMap<String, Result<Stored, String>>,
    store: PixelStore,
    end: u64,
    /// Whether heads are enough.
    of_heads: bool,
}

impl Album {
    /// Starts an album of squares.
    pub(crate) fn create(config: &SamplesConfig) -> io::Result<Self> {
        let (folder, room) = (config.folder.clone(), config.room.clone());
        let store = PixelStore::create(&room.store)?;
        Ok(Self { folder, size: config.image_size, room, images: BTreeMap::new(), store, end: 0, of_heads: false })
    }

    /// Starts an album that reads heads and holds no pixels.
    pub(crate) fn of_heads(config: &SamplesConfig) -> io::Result<Self> {
        Ok(Self { of_heads: true, ..Self::create(config)? })
    }

    /// Decodes an image, unless it is there already; the inner error says what is wrong with it.
    pub(crate) fn add(&mut self, name: &str) -> io::Result<Result<(), String>> {
        if !self.images.contains_key(name) {
            let image = match self.decode(name) {
                Ok(image) => Ok(self.keep(&image)?),
                Err(reason) => Err(format!("use {}: {reason}", self.folder.join(name).display())),
            };
            self.images.insert(name.to_owned(), image);
        }
        Ok(self.images[name].as_ref().map(|_| ()).map_err(Clone::clone))
    }

    /// Returns the rows of an image as a square.
    fn decode(&self, name: &str) -> Result<Vec<u8>, String> {
        let file = ImageFile::look(&self.folder.join(name)).map_err(|fault| self.reason(name, &fault))?;
        let (needed, left) = (squared_bytes(&file, self.size as usize), self.room.left());
        if left < needed {
            let (capacity, ImageFile { width, height, .. }) = (self.room.capacity_for(needed), file);
            return Err(format!(
                "to decode its {width} × {height} pixels takes {needed}, and {left} are left; a capacity of at least {capacity} \
                 or a smaller image would help"
            ));
        }
        if self.of_heads {
            return Ok(Vec::new());
        }
        squared(&file, self.size as usize).map_err(|fault| self.reason(name, &fault))
    }

    fn keep(&mut self, pixels: &[u8]) -> io::Result<Stored> {
        let stored = Stored { offset: self.end, width: self.size, height: self.size };
        let limit = self.store.limit;
        self.end += pixels.len() as u64;
        if limit < Bytes(self.end) {
            return Err(io::Error::other(format!("they take more than `data.store_limit`, which is {limit}")));
        }
        self.store.write(stored.offset, pixels)?;
        Ok(stored)
    }

    fn reason(&self, name: &str, fault: &ImageFault) -> String {
        match fault {
            _ if self.folder.join(name).is_dir() => "it is a folder".to_owned(),
            ImageFault::Io(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
            fault => fault.to_string(),
        }
    }

    /// Returns an image that was added and could be used.
    pub(crate) fn get(&self, name: &str) -> Option<Stored> {
        self.images.get(name)?.as_ref().ok().copied()
    }

    /// Returns the side of every image in pixels.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Reads an image as rows of interleaved RGB.
    ///
    /// # Shapes
    ///
    /// - `into`: `[size, size, 3]`
    pub(crate) fn read(&self, image: Stored, into: &mut [u8]) -> io::Result<()> {
        let window = Window { x: 0, y: 0, width: self.size, height: self.size };
        self.store.read(image, window, into)
    }
}

/// Decodes an image as rows of interleaved RGB, of shape `[size, size, 3]`.
pub(super) fn squared(file: &ImageFile, size: usize) -> Result<Vec<u8>, ImageFault> {
    let (from, to) = sides(file, size);
    let (mut pixels, mut resampler) = (Vec::new(), Resampler::new(Filter::Triangle, from, to));
    let mut n_rows = 0;
    file.rows(&mut |row| {
        // Another image may have taken its place since its head was read.
        if row.len() != 3 * from.0 as usize || n_rows == from.1 {
            n_rows = u32::MAX;
            return ControlFlow::Break(());
        }
        n_rows += 1;
        resampler.push(row, &mut |row| pixels.extend_from_slice(row));
        ControlFlow::Continue(())
    })?;
    match n_rows {
        u32::MAX => Err(ImageFault::Damaged("it is not the image that it was".to_owned())),
        n if n < from.1 => Err(ImageFault::Damaged("rows are missing".to_owned())),
        _ => Ok(pixels),
    }
}

/// Returns what [`squared`] holds at most.
pub(super) fn squared_bytes(file: &ImageFile, size: usize) -> Bytes {
    let (from, to) = sides(file, size);
    let resampled = Resampler::needed(Filter::Triangle, from, to);
    file.needed.saturating_add(resampled).saturating_add(Bytes(3 * (size as u64).pow(2)))
}

/// Returns width and height before and after.
fn sides(file: &ImageFile, size: usize) -> ((u32, u32), (u32, u32)) {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    ((file.width, file.height), (size, size))
}
