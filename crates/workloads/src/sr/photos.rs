//! A folder of images as pairs of resolutions, split into training, validation and test.

use std::path::PathBuf;
use std::sync::OnceLock;

use plimsoll_sampler::AdmitCounts;
use plimsoll_signal::{Filter, RowResizer, Size};
use plimsoll_types::Bytes;

use super::config::{BadImage, PhotosConfig};
use super::folder::{DataError, data_error, look};
use super::gallery::{Gallery, Resolution, sizes, stored_bytes};
use super::model::SCALE;
use crate::checksum::Checksum;
use crate::files::files;
use crate::image_file::ImageFile;
use crate::split::Divided;
use crate::store::Window;
use crate::survey::Survey;
use crate::watch::{Watch, tell, unwatched};

/// Output pixels at each border that the metric leaves out.
pub(crate) const BORDER: u32 = 2;

/// One image in two resolutions.
#[derive(Clone, Debug, PartialEq)]
pub struct Photo {
    /// Its path below the folder.
    pub name: String,
    pub(crate) number: usize,
    /// Width and height at the input resolution.
    pub(crate) low: Size,
    /// Width and height at the output resolution.
    pub(crate) high: Size,
    /// PSNR of bicubic upsampling, once it was asked for.
    baseline: OnceLock<f64>,
}

/// The image with the smallest side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smallest {
    /// Its path below the folder.
    pub name: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
}

impl Smallest {
    fn of(name: &str, (width, height): Size) -> Self {
        Self { name: name.to_owned(), width, height }
    }

    /// Returns the largest square that fits into it, in pixels at the input resolution.
    pub fn largest_patch(&self) -> u32 {
        self.width.min(self.height) / SCALE
    }
}

/// The images of a folder; decoded pixels lie in a file.
#[derive(Debug)]
pub struct Photos {
    /// Images to train on, in the order of their paths.
    pub train: Vec<Photo>,
    /// Images that are held out to validate on.
    pub validation: Vec<Photo>,
    /// Images that are held out to test on.
    pub test: Vec<Photo>,
    /// Files that were left out, each with the reason.
    pub skipped: Vec<String>,
    gallery: Gallery,
    /// Images that are decoded when they are needed, since not all have room in the file.
    n_waiting: usize,
    stored: Bytes,
}

impl Photos {
    /// Looks at all images of a folder, splits them, and decodes and downsamples as many as the store has room for.
    ///
    /// # Errors
    ///
    /// [`DataError`] names the file or folder and what would be right.
    pub fn read(config: &PhotosConfig) -> Result<Self, DataError> {
        Self::read_watched(config, &mut unwatched)
    }

    /// As [`Self::read`], for someone who wants to know how far it is.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and [`DataError::Interrupted`].
    pub fn read_watched(config: &PhotosConfig, watch: Watch<'_>) -> Result<Self, DataError> {
        let Found { images: found, mut skipped, n_files } = Found::look(config, watch)?;
        let files = found.iter().map(|(_, _, file)| file.clone()).collect();
        let gallery = Gallery::create(files, &config.room.store).map_err(|source| store_error(config, source))?;
        let (mut photos, mut n_waiting, mut stored) = (Vec::new(), 0, Bytes::ZERO);
        for (number, (name, path, file)) in found.iter().enumerate() {
            tell(watch, number, found.len())?;
            stored = stored.saturating_add(stored_bytes(file));
            if !gallery.has_room_for(number) {
                n_waiting += 1;
                photos.push(photo(number, name, file));
                continue;
            }
            let decoded = gallery.decode(number).map_err(|fault| data_error(path, fault));
            photos.extend(usable(decoded, name, config.bad_image, &mut skipped)?.map(|()| photo(number, name, file)));
        }
        if n_waiting > 0 {
            gallery.reserve();
        }
        if photos.len() < 2 {
            return Err(too_few(config, photos.len(), n_files, skipped));
        }
        let Divided { train, validation, test } = config.shares.divide(0, photos);
        let photos = Self { train, validation, test, skipped, gallery, n_waiting, stored };
        photos.measure_baselines(config, watch)?;
        Ok(photos)
    }

    /// Returns how many images are decoded when they are needed, and what the pixels of all take, where not all have
    /// room in the store.
    pub fn waiting(&self) -> Option<(usize, Bytes)> {
        (self.n_waiting > 0).then_some((self.n_waiting, self.stored))
    }

    /// Returns the largest square that fits into every training image, in pixels at the input resolution.
    pub fn largest_patch(&self) -> u32 {
        self.train.iter().map(|it| it.low.0.min(it.low.1)).min().unwrap_or(0)
    }

    /// Returns the training image that [`Self::largest_patch`] is due to.
    pub fn smallest(&self) -> Option<Smallest> {
        let photo = self.train.iter().min_by_key(|it| it.low.0.min(it.low.1))?;
        Some(Smallest::of(&photo.name, self.gallery.size(photo.number)))
    }

    /// Returns the longest smaller side among the images held out, at the input resolution.
    pub fn largest_side(&self) -> u32 {
        self.held_out().map(|it| it.low.0.min(it.low.1)).max().unwrap_or(0)
    }

    /// Returns a number that differs, but for chance, when images of other names or sizes are trained on.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        for Photo { name, high, .. } in &self.train {
            checksum.text(name);
            checksum.number(u64::from(high.0));
            checksum.number(u64::from(high.1));
        }
        checksum.finish()
    }

    /// Copies a window of an image, as rows of interleaved RGB; the error names the image.
    pub(crate) fn pixels(
        &self,
        photo: &Photo,
        resolution: Resolution,
        window: Window,
        into: &mut [u8],
    ) -> Result<(), String> {
        let read = self.gallery.read(photo.number, resolution, window, into);
        read.map_err(|fault| format!("{}: {fault}", photo.name))
    }

    /// Returns the PSNR of bicubic upsampling.
    pub(crate) fn baseline(&self, photo: &Photo) -> Result<f64, String> {
        if let Some(known) = photo.baseline.get() {
            return Ok(*known);
        }
        let found = self.upsampled_psnr(photo)?;
        Ok(*photo.baseline.get_or_init(|| found))
    }

    fn upsampled_psnr(&self, photo: &Photo) -> Result<f64, String> {
        let (low, (width, height)) = (photo.low, photo.high);
        let whole = Window { x: 0, y: 0, width: low.0, height: low.1 };
        let inside = Window { x: BORDER, y: BORDER, width: width - 2 * BORDER, height: height - 2 * BORDER };
        let squares = self.bicubic_squares(photo, whole, inside)?;
        Ok(psnr(squares as f64, 3 * u64::from(inside.width) * u64::from(inside.height)))
    }

    /// Upsamples the rows of a window of the input resolution, and returns the sum of squared errors in a window of the
    /// output resolution that lies inside.
    pub(crate) fn bicubic_squares(&self, photo: &Photo, low: Window, inside: Window) -> Result<u64, String> {
        let mut resizer =
            RowResizer::new(Filter::CatmullRom, (low.width, low.height), (SCALE * low.width, SCALE * low.height));
        let [mut row, mut truth] = [low.width, inside.width].map(|it| vec![0; 3 * it as usize]);
        let (left, rows) = ((inside.x - SCALE * low.x) as usize, inside.y..inside.y + inside.height);
        let (mut squares, mut y, mut compared) = (0, SCALE * low.y, Ok(()));
        for low_y in low.y..low.y + low.height {
            self.pixels(photo, Resolution::Low, Window { y: low_y, height: 1, ..low }, &mut row)?;
            resizer.push(&row, &mut |upsampled| {
                if rows.contains(&y) && compared.is_ok() {
                    compared = self.pixels(photo, Resolution::High, Window { y, height: 1, ..inside }, &mut truth);
                    squares += distance(&upsampled[3 * left..3 * left + truth.len()], &truth);
                }
                y += 1;
            });
        }
        compared.map(|()| squares)
    }

    fn held_out(&self) -> impl Iterator<Item = &Photo> {
        self.validation.iter().chain(&self.test)
    }

    fn measure_baselines(&self, config: &PhotosConfig, watch: Watch<'_>) -> Result<(), DataError> {
        // Where photos are decoded when they are needed, this waits for the first validation.
        if self.n_waiting > 0 {
            return Ok(());
        }
        for (at, photo) in self.held_out().enumerate() {
            tell(watch, at, self.validation.len() + self.test.len())?;
            self.baseline(photo).map_err(|reason| store_error(config, std::io::Error::other(reason)))?;
        }
        Ok(())
    }
}

/// The images of a folder by their heads.
struct Found {
    images: Vec<(String, PathBuf, ImageFile)>,
    skipped: Vec<String>,
    n_files: usize,
}

impl Found {
    fn look(config: &PhotosConfig, watch: Watch<'_>) -> Result<Self, DataError> {
        let paths = files(&config.folder)?;
        let mut found = Self { images: Vec::new(), skipped: Vec::new(), n_files: paths.len() };
        for (at, path) in paths.iter().enumerate() {
            tell(watch, at, found.n_files)?;
            let name = path.strip_prefix(&config.folder).unwrap_or(path).display().to_string();
            let looked = look(path, config).map_err(|error| match config.bad_image {
                BadImage::Fail => error.for_all(paths[at..].iter(), config),
                BadImage::Skip => error,
            });
            if let Some(file) = usable(looked, &name, config.bad_image, &mut found.skipped)? {
                found.images.push((name, path.clone(), file));
            }
        }
        Ok(found)
    }
}

/// Looks at the heads of all images of a folder, and decodes none; also returns the smallest to train on.
///
/// # Errors
///
/// Those of [`Photos::read_watched`] that show before anything is decoded.
pub fn survey(config: &PhotosConfig, watch: Watch<'_>) -> Result<(Survey, Option<Smallest>), DataError> {
    let Found { images, skipped, n_files } = Found::look(config, watch)?;
    if images.len() < 2 {
        return Err(too_few(config, images.len(), n_files, skipped));
    }
    let Divided { train, validation, test } = config.shares.divide(0, images);
    let lengths = train.iter().map(|(_, _, file)| u64::from(file.width.min(file.height))).collect();
    let smallest = train.iter().min_by_key(|(_, _, file)| file.width.min(file.height));
    let smallest = smallest.map(|(name, _, file)| Smallest::of(name, (file.width, file.height)));
    let survey = Survey {
        samples: "images",
        n_train: train.len(),
        n_validation: validation.len(),
        n_test: test.len(),
        unit: "pixels of the smaller side",
        lengths,
        kinds: Vec::new(),
        outside: AdmitCounts::default(),
        skipped,
    };
    Ok((survey, smallest))
}

fn too_few(config: &PhotosConfig, found: usize, files: usize, skipped: Vec<String>) -> DataError {
    DataError::TooFew { folder: config.folder.clone(), found, files, skipped }
}

/// Notes a file that is left out; nobody is to blame for one that is no image.
fn usable<T>(
    seen: Result<T, DataError>,
    name: &str,
    bad_image: BadImage,
    skipped: &mut Vec<String>,
) -> Result<Option<T>, DataError> {
    match seen {
        Ok(seen) => Ok(Some(seen)),
        Err(error) => match error.reason_to_skip() {
            Some(reason) if error.is_foreign() || bad_image == BadImage::Skip => {
                skipped.push(format!("{name}: {reason}"));
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

fn photo(number: usize, name: &str, file: &ImageFile) -> Photo {
    let (high, low) = sizes(file);
    Photo { name: name.to_owned(), number, low, high, baseline: OnceLock::new() }
}

/// Returns the sum of squared differences.
fn distance(a: &[u8], b: &[u8]) -> u64 {
    a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum()
}

/// Returns the peak signal-to-noise ratio in dB of 8-bit values whose squared errors add up to `squares`.
pub(crate) fn psnr(squares: f64, n_values: u64) -> f64 {
    // Half a unit in one value is the least error that a sum of squares in 8 bit can hide.
    let mse = squares.max(0.25) / n_values as f64;
    10.0 * (255.0 * 255.0 / mse).log10()
}

fn store_error(config: &PhotosConfig, source: std::io::Error) -> DataError {
    DataError::Store { folder: config.room.store.folder.clone(), source }
}

#[cfg(test)]
mod tests {
    use image::RgbImage;

    use super::*;
    use crate::room::Room;
    use crate::split::Shares;

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
        let folder = tempfile::tempdir().unwrap();
        let checker = RgbImage::from_fn(40, 40, |x, y| image::Rgb([if (x + y) % 2 == 0 { 0 } else { 255 }; 3]));
        checker.save(folder.path().join("checker.png")).unwrap();
        RgbImage::from_pixel(40, 40, image::Rgb([90; 3])).save(folder.path().join("flat.png")).unwrap();
        let config = PhotosConfig {
            folder: folder.path().to_owned(),
            shares: Shares::validating(0.5),
            bad_image: BadImage::Fail,
            smallest_patch: 8,
            room: Room::boundless(folder.path()),
        };
        let photos = Photos::read(&config).unwrap();
        let all = photos.train.iter().chain(&photos.validation);
        let psnr = |photo: &Photo| photos.baseline(photo).unwrap();
        let (checker, flat): (Vec<_>, Vec<_>) = all.partition(|it| it.name == "checker.png");
        assert!(psnr(flat[0]) > 80.0 && psnr(checker[0]) < 10.0);
    }
}
