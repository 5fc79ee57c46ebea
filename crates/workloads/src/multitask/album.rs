//! The images of a folder, in the sizes that they have in batches.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use plimsoll_signal::{Filter, RowResizer};
use plimsoll_types::Bytes;

use super::samples_config::SamplesConfig;
use super::sizes::Fit;
use crate::image_file::{ImageFault, ImageFile};
use crate::room::Room;
use crate::store::{Store, Stored, Window};

/// Images that were decoded once, by their path below the folder.
#[derive(Debug)]
pub(crate) struct Album {
    folder: PathBuf,
    fit: Fit,
    room: Room,
    /// What became of each image that was asked for.
    images: BTreeMap<String, Result<Stored, String>>,
    store: Store,
    end: u64,
    /// Whether heads are enough.
    of_heads: bool,
}

impl Album {
    /// Starts an album.
    pub(crate) fn create(config: &SamplesConfig) -> io::Result<Self> {
        let (folder, room) = (config.folder.clone(), config.room.clone());
        let store = Store::create(&room.store)?;
        Ok(Self { folder, fit: config.fit(), room, images: BTreeMap::new(), store, end: 0, of_heads: false })
    }

    /// Starts an album that reads heads and holds no pixels.
    pub(crate) fn of_heads(config: &SamplesConfig) -> io::Result<Self> {
        Ok(Self { of_heads: true, ..Self::create(config)? })
    }

    /// Decodes an image, unless it is there already; the inner error says what is wrong with it.
    pub(crate) fn add(&mut self, name: &str) -> io::Result<Result<(), String>> {
        if !self.images.contains_key(name) {
            let image = match self.decode(name) {
                Ok(decoded) => Ok(self.keep(&decoded)?),
                Err(reason) => Err(format!("use {}: {reason}", self.folder.join(name).display())),
            };
            self.images.insert(name.to_owned(), image);
        }
        Ok(self.images[name].as_ref().map(|_| ()).map_err(Clone::clone))
    }

    fn decode(&self, name: &str) -> Result<Decoded, String> {
        let file = ImageFile::look(&self.folder.join(name)).map_err(|fault| self.reason(name, &fault))?;
        let (needed, left) = (decoded_bytes(&file, self.fit), self.room.left());
        if left < needed {
            let (capacity, ImageFile { width, height, .. }) = (self.room.capacity_for(needed), file);
            return Err(format!(
                "to decode its {width} × {height} pixels takes {needed}, and {left} are left; a capacity of at least {capacity} \
                 or a smaller image would help"
            ));
        }
        if self.of_heads {
            return Ok(Decoded { size: self.fit.of((file.width, file.height)), rows: Vec::new() });
        }
        decoded(&file, self.fit).map_err(|fault| self.reason(name, &fault))
    }

    fn keep(&mut self, Decoded { size: (width, height), rows: pixels }: &Decoded) -> io::Result<Stored> {
        let (stored, limit) = (Stored { offset: self.end, width: *width, height: *height }, self.store.limit);
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

    /// Returns what size images become.
    pub(crate) fn fit(&self) -> Fit {
        self.fit
    }

    /// Reads an image.
    pub(crate) fn read(&self, image: Stored) -> io::Result<Decoded> {
        let Stored { width, height, .. } = image;
        let mut rows = vec![0; 3 * width as usize * height as usize];
        self.store.read_window(image, Window { x: 0, y: 0, width, height }, &mut rows)?;
        Ok(Decoded { size: (width, height), rows })
    }
}

/// An image that was decoded, and has its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    /// `[height, width, 3]`: interleaved RGB.
    pub(crate) rows: Vec<u8>,
}

/// Decodes an image.
pub(super) fn decoded(file: &ImageFile, fit: Fit) -> Result<Decoded, ImageFault> {
    let from = (file.width, file.height);
    let to = fit.of(from);
    let (mut pixels, mut resizer) = (Vec::new(), RowResizer::new(Filter::Triangle, from, to));
    let mut n_rows = 0;
    file.rows(&mut |row| {
        // Another image may have taken its place since its head was read.
        if row.len() != 3 * from.0 as usize || n_rows == from.1 {
            n_rows = u32::MAX;
            return ControlFlow::Break(());
        }
        n_rows += 1;
        resizer.push(row, &mut |row| pixels.extend_from_slice(row));
        ControlFlow::Continue(())
    })?;
    match n_rows {
        u32::MAX => Err(ImageFault::Damaged("it is not the image that it was".to_owned())),
        n if n < from.1 => Err(ImageFault::Damaged("rows are missing".to_owned())),
        _ => Ok(Decoded { size: to, rows: pixels }),
    }
}

/// Returns what [`decoded`] holds at most.
pub(super) fn decoded_bytes(file: &ImageFile, fit: Fit) -> Bytes {
    let from = (file.width, file.height);
    let to = fit.of(from);
    let resampled = RowResizer::needed(Filter::Triangle, from, to);
    file.needed.saturating_add(resampled).saturating_add(Bytes(3 * u64::from(to.0) * u64::from(to.1)))
}
