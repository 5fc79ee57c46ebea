//! Pairs of crops as training samples.

use std::sync::Arc;

use plimsoll_train::{Draw, Item, Source, SourceError};
use plimsoll_types::{Bytes, StepShape};

use super::crop::{Crop, HostBuffer, crop, image_of, place_crop};
use super::gallery::Resolution;
use super::model::SCALE;
use super::photos::{Photo, Photos};
use crate::store::Window;

/// `crops_per_image` crops of every training image per epoch, each at a random position and in a random orientation.
#[derive(Debug)]
pub struct Crops {
    photos: Arc<Photos>,
    per_image: u32,
    seed: u64,
}

/// A crop, of which nothing is read before the edge is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CropItem {
    /// It is cut when it is collated.
    Cut,
    /// Another rank cuts it.
    Elsewhere,
}

impl Item for CropItem {}

/// The pixels of one optimizer step, with room to cut one crop.
#[derive(Debug)]
pub struct CropBuffer {
    /// The pixels, in 8 bit.
    pub pixels: HostBuffer,
    scratch: Vec<u8>,
}

impl Crops {
    /// Cuts crops out of the training images.
    pub fn new(photos: Arc<Photos>, crops_per_image: u32, seed: u64) -> Self {
        Self { photos, per_image: crops_per_image, seed }
    }

    fn photo(&self, id: u64) -> &Photo {
        &self.photos.train[usize::try_from(image_of(id, self.per_image)).unwrap_or(usize::MAX)]
    }

    fn place(&self, crop: Crop, photo: &Photo, index: usize, buffer: &mut CropBuffer) -> Result<(), String> {
        let CropBuffer { pixels, scratch } = buffer;
        let pair = pixels.pair_mut(index);
        let mut cut = |resolution: Resolution, scale: u32, into: &mut [u8]| {
            let edge = crop.edge * scale;
            let scratch = &mut scratch[..into.len()];
            let window = Window { x: crop.x * scale, y: crop.y * scale, width: edge, height: edge };
            self.photos.pixels(photo, resolution, window, scratch)?;
            place_crop(scratch, edge, crop.orientation, into);
            Ok(())
        };
        cut(Resolution::Low, 1, pair.lr)?;
        cut(Resolution::High, SCALE, pair.hr)
    }
}

impl Source for Crops {
    type Item = CropItem;
    type Buffer = CropBuffer;

    fn n_samples(&self) -> u64 {
        self.photos.train.len() as u64 * u64::from(self.per_image)
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        let pixels = HostBuffer::byte_capacity(largest.samples, largest.edge(), SCALE);
        pixels.saturating_add(Bytes(scratch_len(largest.edge()) as u64))
    }

    fn buffer(&self, largest: StepShape) -> CropBuffer {
        let pixels = HostBuffer::with_capacity(largest.samples, largest.edge(), SCALE);
        CropBuffer { pixels, scratch: vec![0; scratch_len(largest.edge())] }
    }

    fn describe(&self, id: u64) -> String {
        format!("a crop of {}", self.photo(id).name)
    }

    fn smaller(&self) -> &'static str {
        "a smaller `batch.patch_min`"
    }

    /// Nothing yet: which pixels are read depends on the edge.
    fn read(&self, _epoch: u64, _id: u64) -> Result<CropItem, SourceError> {
        Ok(CropItem::Cut)
    }

    fn stand_in(&self, _id: u64) -> Option<CropItem> {
        Some(CropItem::Elsewhere)
    }

    fn collate(&self, draw: &Draw, items: &[CropItem], buffer: &mut CropBuffer) -> Result<(), SourceError> {
        let error = |sample_id, reason: String| SourceError { sample_id, reason };
        let (ids, edge): (Vec<_>, _) = (draw.ids().collect(), draw.parts.first().map_or(0, |part| part.extent.edge()));
        buffer.pixels.begin(&ids, edge).map_err(|it| error(0, it.to_string()))?;
        for ((index, id), _) in ids.into_iter().enumerate().zip(items).filter(|(_, it)| **it == CropItem::Cut) {
            let photo = self.photo(id);
            let crop = crop(id, self.per_image, photo.low, edge, self.seed, draw.epoch)
                .map_err(|it| error(id, format!("{}: {it}", photo.name)))?;
            self.place(crop, photo, index, buffer).map_err(|it| error(id, it))?;
        }
        Ok(())
    }
}

/// Returns the bytes of one crop at the output resolution.
fn scratch_len(edge: u32) -> usize {
    3 * (edge as usize * SCALE as usize).pow(2)
}
