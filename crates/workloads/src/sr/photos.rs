//! A folder of images as pairs of resolutions, split into training and validation.

use std::path::{Path, PathBuf};

use image::RgbImage;
use image::imageops::{FilterType, crop_imm, resize};

use super::folder::{BadImage, DataError, Decoded, decode};
use super::model::SCALE;
use crate::checksum::Checksum;
use crate::files::files;
use crate::split::held_out;
use crate::store::{PixelStore, Stored, Window};

/// Catmull–Rom, widened when it shrinks: antialiased bicubic with half-pixel centres.
const FILTER: FilterType = FilterType::CatmullRom;

/// Output pixels at each border that the metric leaves out.
pub(crate) const BORDER: u32 = 2;

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct PhotosConfig {
    /// The folder, read recursively.
    pub folder: PathBuf,
    /// The part of the images that is held out, rounded to whole images, at least one.
    pub validation_share: f64,
    /// What to do about damaged images.
    pub bad_image: BadImage,
    /// The smallest patch that will be cut, in pixels at the input resolution.
    pub smallest_patch: u32,
}

/// One image in two resolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct Photo {
    /// Its path below the folder.
    pub name: String,
    pub(crate) low: Stored,
    pub(crate) high: Stored,
    /// PSNR of bicubic upsampling, for images that are held out.
    pub(crate) baseline: Option<f64>,
}

/// The images of a folder; decoded pixels lie in a temporary file.
#[derive(Debug)]
pub struct Photos {
    /// Images to train on, in the order of their paths.
    pub train: Vec<Photo>,
    /// Images that are held out.
    pub validation: Vec<Photo>,
    /// Files that were left out, each with the reason.
    pub skipped: Vec<String>,
    store: PixelStore,
}

impl Photos {
    /// Reads, decodes, downsamples and splits all images of a folder.
    ///
    /// # Errors
    ///
    /// [`DataError`] names the file or folder and what would be right.
    pub fn read(config: &PhotosConfig) -> Result<Self, DataError> {
        let paths = files(&config.folder)?;
        let mut store = PixelStore::create().map_err(store_error)?;
        let (mut photos, mut skipped) = (Vec::new(), Vec::new());
        for path in &paths {
            let name = path.strip_prefix(&config.folder).unwrap_or(path).display().to_string();
            match decode(path, config.bad_image)? {
                Decoded::Image(image) => match too_small(path, &image, config.smallest_patch) {
                    None => photos.push(photo(name, &image, &mut store)?),
                    Some(_) if config.bad_image == BadImage::Skip => {
                        skipped.push(format!("{name}: {} × {} pixels are too few", image.width(), image.height()));
                    }
                    Some(error) => return Err(error),
                },
                Decoded::Skipped(reason) => skipped.push(format!("{name}: {reason}")),
            }
        }
        if photos.len() < 2 {
            let (found, files) = (photos.len(), paths.len());
            return Err(DataError::TooFew { folder: config.folder.clone(), found, files });
        }
        let mut photos = Self { train: photos, validation: Vec::new(), skipped, store };
        photos.hold_out(config.validation_share)?;
        Ok(photos)
    }

    /// Returns the largest square that fits into every training image, in pixels at the input resolution.
    pub fn largest_patch(&self) -> u32 {
        self.train.iter().map(|it| it.low.width.min(it.low.height)).min().unwrap_or(0)
    }

    /// Returns the longest smaller side among the images held out, at the input resolution.
    pub fn largest_side(&self) -> u32 {
        self.validation.iter().map(|it| it.low.width.min(it.low.height)).max().unwrap_or(0)
    }

    /// Returns a number that differs, but for chance, when images of other names or sizes are trained on.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        for Photo { name, high, .. } in &self.train {
            checksum.text(name);
            checksum.number(u64::from(high.width));
            checksum.number(u64::from(high.height));
        }
        checksum.finish()
    }

    pub(crate) fn store(&self) -> &PixelStore {
        &self.store
    }

    fn hold_out(&mut self, share: f64) -> Result<(), DataError> {
        let mut held = held_out(self.train.len(), share).into_iter();
        let is_held = |_: &mut Photo| held.next() == Some(true);
        self.validation = self.train.extract_if(.., is_held).collect();
        for photo in &mut self.validation {
            photo.baseline = Some(baseline(&self.store, photo).map_err(store_error)?);
        }
        Ok(())
    }
}

fn too_small(path: &Path, image: &RgbImage, smallest: u32) -> Option<DataError> {
    let (width, height, needed) = (image.width(), image.height(), smallest * SCALE);
    let error = DataError::TooSmall { path: path.to_owned(), width, height, patch: smallest, needed };
    (width.min(height) / SCALE < smallest).then_some(error)
}

fn photo(name: String, image: &RgbImage, store: &mut PixelStore) -> Result<Photo, DataError> {
    let (width, height) = image.dimensions();
    let high = crop_imm(image, 0, 0, width / SCALE * SCALE, height / SCALE * SCALE).to_image();
    let low = resize(&high, width / SCALE, height / SCALE, FILTER);
    let (low, high) = (store.push(&low).map_err(store_error)?, store.push(&high).map_err(store_error)?);
    Ok(Photo { name, low, high, baseline: None })
}

/// Returns the PSNR of bicubic upsampling.
fn baseline(store: &PixelStore, photo: &Photo) -> std::io::Result<f64> {
    let (low, high) = (load(store, photo.low)?, load(store, photo.high)?);
    let upsampled = resize(&low, high.width(), high.height(), FILTER);
    let inside = Window { x: BORDER, y: BORDER, width: high.width() - 2 * BORDER, height: high.height() - 2 * BORDER };
    let cut = |image: &RgbImage| crop_imm(image, inside.x, inside.y, inside.width, inside.height).to_image().into_raw();
    let squares: u64 = cut(&upsampled).iter().zip(cut(&high)).map(|(a, b)| u64::from(a.abs_diff(b)).pow(2)).sum();
    Ok(psnr(squares as f64, 3 * u64::from(inside.width) * u64::from(inside.height)))
}

fn load(store: &PixelStore, stored: Stored) -> std::io::Result<RgbImage> {
    let mut image = RgbImage::new(stored.width, stored.height);
    let whole = Window { x: 0, y: 0, width: stored.width, height: stored.height };
    store.read(stored, whole, &mut image)?;
    Ok(image)
}

/// Returns the peak signal-to-noise ratio in dB of 8-bit values whose squared errors add up to `squares`.
pub(crate) fn psnr(squares: f64, n_values: u64) -> f64 {
    // Half a unit in one value is the least error that a sum of squares in 8 bit can hide.
    let mse = squares.max(0.25) / n_values as f64;
    10.0 * (255.0 * 255.0 / mse).log10()
}

fn store_error(source: std::io::Error) -> DataError {
    DataError::Store { folder: std::env::temp_dir(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psnr_is_that_of_the_definition() {
        let check = |squares, n_values, expected: f64| assert!((psnr(squares, n_values) - expected).abs() < 1e-9);
        // An error of 1 in every value, and of 255 in one of a hundred.
        check(100.0, 100, 20.0 * 255f64.log10());
        check(255.0 * 255.0, 100, 20.0);
        assert!(psnr(0.0, 100).is_finite());
    }

    #[test]
    fn the_baseline_of_a_flat_image_is_perfect_and_that_of_noise_is_not() {
        let mut store = PixelStore::create().unwrap();
        let flat = photo("flat".to_owned(), &RgbImage::from_pixel(40, 40, image::Rgb([90; 3])), &mut store).unwrap();
        let checker = RgbImage::from_fn(40, 40, |x, y| image::Rgb([if (x + y) % 2 == 0 { 0 } else { 255 }; 3]));
        let checker = photo("checker".to_owned(), &checker, &mut store).unwrap();
        assert!(baseline(&store, &flat).unwrap() > 80.0);
        assert!(baseline(&store, &checker).unwrap() < 10.0);
    }
}
