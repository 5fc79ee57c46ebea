//! The images of a folder, as squares of one size.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use image::imageops::{FilterType, resize};

use crate::image_file::{ImageFault, decode};
use crate::store::{PixelStore, Stored, Window};

/// Images that were decoded once, by their path below the folder.
#[derive(Debug)]
pub(crate) struct Album {
    folder: PathBuf,
    size: u32,
    /// What became of each image that was asked for.
    images: BTreeMap<String, Result<Stored, String>>,
    store: PixelStore,
}

impl Album {
    /// Starts an album of images with sides of `size` pixels.
    pub(crate) fn create(folder: &Path, size: u32) -> io::Result<Self> {
        Ok(Self { folder: folder.to_owned(), size, images: BTreeMap::new(), store: PixelStore::create()? })
    }

    /// Decodes an image, unless it is there already; the inner error says what is wrong with it.
    pub(crate) fn add(&mut self, name: &str) -> io::Result<Result<(), String>> {
        if !self.images.contains_key(name) {
            let image = match decode(&self.folder.join(name)) {
                Ok(image) => Ok(self.store.push(&resize(&image, self.size, self.size, FilterType::Triangle))?),
                Err(fault) => Err(format!("use {}: {}", self.folder.join(name).display(), self.reason(name, &fault))),
            };
            self.images.insert(name.to_owned(), image);
        }
        Ok(self.images[name].as_ref().map(|_| ()).map_err(Clone::clone))
    }

    fn reason(&self, name: &str, fault: &ImageFault) -> String {
        match fault {
            _ if self.folder.join(name).is_dir() => "it is a folder".to_owned(),
            ImageFault::Io(error) if error.kind() == io::ErrorKind::NotFound => "there is no such file".to_owned(),
            ImageFault::Io(error) => error.to_string(),
            ImageFault::Foreign => "it is no PNG or JPEG image".to_owned(),
            ImageFault::Damaged(reason) => format!("it is damaged: {reason}"),
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
        self.store.read(image, Window { x: 0, y: 0, width: self.size, height: self.size }, into)
    }
}
