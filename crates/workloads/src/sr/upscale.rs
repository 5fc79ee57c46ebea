//! A trained model that upscales image files.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_train::{BlankForward, Checkpoint, CheckpointError, StepError, uploaded};
use plimsoll_types::{Bytes, StepShape};
use png::{BitDepth, ColorType, Encoder};

use super::model::{Edsr, EdsrConfig, SCALE};
use super::tiles::{Span, spans};
use crate::image_file::{ImageFault, ImageFile};

/// Channels of a pixel.
const RGB: usize = 3;

/// A model from a checkpoint, on a device.
#[derive(Debug)]
pub struct Upscaler {
    model: Edsr,
    /// Pixels of context that a tile needs on each side.
    halo: u32,
    device: Device,
}

/// Why an image was not upscaled.
#[derive(Debug, thiserror::Error)]
pub enum UpscaleError {
    /// The file gives no image.
    #[error("{0}")]
    Image(String),
    /// The model failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The result cannot be written.
    #[error("write the image: {0}")]
    Write(#[from] io::Error),
    /// It was asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// An image file whose head was read.
#[derive(Clone, Debug)]
pub struct Picture {
    file: ImageFile,
}

impl Picture {
    /// Reads the head of a file.
    ///
    /// # Errors
    ///
    /// [`UpscaleError::Image`] when it is no image.
    pub fn look(path: &Path) -> Result<Self, UpscaleError> {
        Ok(Self { file: ImageFile::look(path)? })
    }

    /// Returns width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.file.width, self.file.height)
    }

    /// Returns the edge of its tiles, which are at most this large.
    pub fn tile(&self, most: u32) -> u32 {
        most.min(self.file.width).min(self.file.height)
    }

    /// Returns what [`Upscaler::upscale`] holds on the host beside the model's tensors, at most.
    pub fn needed(&self, tile: u32) -> Bytes {
        let (width, tile) = (u64::from(self.file.width), u64::from(self.tile(tile)));
        let (band, scaled) = (RGB as u64 * width * tile, u64::from(SCALE * SCALE));
        // Rows that wait for the band to be full, and rows that were made of it.
        self.file.needed.saturating_add(Bytes((1 + scaled) * band))
    }
}

impl From<ImageFault> for UpscaleError {
    fn from(fault: ImageFault) -> Self {
        Self::Image(fault.to_string())
    }
}

impl Upscaler {
    /// Loads the model of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Record`] when it is one of another size.
    pub fn open(config: EdsrConfig, checkpoint: &Checkpoint, device: Device) -> Result<Self, CheckpointError> {
        let model = checkpoint.load_model(config.init(&device))?;
        Ok(Self { model: model.valid(), halo: config.receptive_radius(), device: device.inner() })
    }

    /// Writes an image of twice the sides as PNG, from tiles of at most `tile` pixels a side, `at_once` at a time; tells
    /// `on_row` how many rows of the image are done, and ends where that breaks.
    ///
    /// No more than a band of rows is held, however large the image is, but for what decodes it: see [`Picture::needed`].
    ///
    /// # Errors
    ///
    /// [`UpscaleError`]; what was written until then is no whole image.
    pub fn upscale(
        &self,
        picture: &Picture,
        (tile, at_once): (u32, u32),
        mut into: impl Write,
        on_row: &mut dyn FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), UpscaleError> {
        let (width, height) = picture.size();
        let edge = picture.tile(tile);
        let halo = self.halo.min(edge - 1);
        let mut encoder = Encoder::new(&mut into, SCALE * width, SCALE * height);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        let mut header = encoder.write_header().map_err(io::Error::from)?;
        let mut writer = header.stream_writer().map_err(io::Error::from)?;
        let columns = spans(width, edge, halo);
        let mut band = Band { rows: Vec::new(), first: 0, width };
        let mut of_rows = spans(height, edge, halo).into_iter().peekable();
        let mut done: Result<(), UpscaleError> = Ok(());
        picture.file.rows(&mut |row| {
            band.rows.extend_from_slice(row);
            while let Some(rows) = of_rows.next_if(|it| it.start + edge <= band.end()) {
                let upscaled = self.rows(&band, rows, &columns, edge, at_once as usize);
                done = upscaled.map_err(UpscaleError::from).and_then(|pixels| Ok(writer.write_all(&pixels)?));
                if done.is_ok() && on_row(rows.core_end).is_break() {
                    done = Err(UpscaleError::Interrupted);
                }
                if done.is_err() {
                    return ControlFlow::Break(());
                }
                band.drop_before(of_rows.peek().map_or(rows.start, |next| next.start));
            }
            ControlFlow::Continue(())
        })?;
        done?;
        if of_rows.peek().is_some() {
            let (has, height) = (band.end(), picture.file.height);
            return Err(UpscaleError::Image(format!("it is damaged: it has {has} of its {height} rows")));
        }
        writer.finish().map_err(io::Error::from)?;
        drop(header);
        Ok(into.flush()?)
    }

    /// Upscales the rows of a band that count.
    ///
    /// # Shapes
    ///
    /// - output: `[2 · (core_end - core_start), 2 · width, 3]`
    fn rows(&self, band: &Band, rows: Span, columns: &[Span], edge: u32, at_once: usize) -> Result<Vec<u8>, StepError> {
        let side = (SCALE * edge) as usize;
        let stride = RGB * (SCALE * band.width) as usize;
        let height = (SCALE * (rows.core_end - rows.core_start)) as usize;
        let top = (SCALE * (rows.core_start - rows.start)) as usize;
        let mut pixels = vec![0; height * stride];
        for columns in columns.chunks(at_once) {
            let values = self.forward(band, rows, columns, edge)?;
            let values = values.as_slice::<f32>().map_err(|error| StepError::Device(error.to_string()))?;
            for (column, planes) in columns.iter().zip(values.chunks_exact(RGB * side * side)) {
                let (left, start) = ((SCALE * (column.core_start - column.start)) as usize, SCALE * column.core_start);
                let n = (SCALE * (column.core_end - column.core_start)) as usize;
                for (y, row) in pixels.chunks_exact_mut(stride).enumerate() {
                    let row = &mut row[RGB * start as usize..][..RGB * n];
                    for (x, pixel) in row.chunks_exact_mut(RGB).enumerate() {
                        let at = (top + y) * side + left + x;
                        (0..RGB).for_each(|channel| pixel[channel] = byte(planes[channel * side * side + at]));
                    }
                }
            }
        }
        Ok(pixels)
    }

    /// Returns `[n_columns, 3, 2 · edge, 2 · edge]` values.
    fn forward(&self, band: &Band, rows: Span, columns: &[Span], edge: u32) -> Result<TensorData, StepError> {
        let shape = [columns.len(), RGB, edge as usize, edge as usize];
        let mut planes = Vec::with_capacity(shape.iter().product());
        for column in columns {
            for channel in 0..RGB {
                for y in rows.start..rows.start + edge {
                    planes
                        .extend(band.row(y, column.start, edge).iter().skip(channel).step_by(RGB).map(|it| unit(*it)));
                }
            }
        }
        let tiles = Tensor::from_data(TensorData::new(planes, shape), &self.device);
        Ok(self.model.forward(uploaded(tiles, &self.device)).try_into_data()?)
    }
}

impl BlankForward for Upscaler {
    /// Does what tiles of this shape do, without an image.
    fn blank(&self, shape: StepShape) -> Tensor<1> {
        let edge = shape.edge() as usize;
        let tiles = Tensor::zeros([shape.samples as usize, RGB, edge, edge], &self.device);
        self.model.forward(uploaded(tiles, &self.device)).flatten(0, 3)
    }
}

/// The rows of an image that its next tiles need, as interleaved RGB.
struct Band {
    rows: Vec<u8>,
    /// The first of them.
    first: u32,
    width: u32,
}

impl Band {
    fn stride(&self) -> usize {
        RGB * self.width as usize
    }

    /// Returns the row after the last.
    fn end(&self) -> u32 {
        self.first + u32::try_from(self.rows.len() / self.stride()).unwrap_or(u32::MAX)
    }

    fn drop_before(&mut self, row: u32) {
        let n = (row.saturating_sub(self.first)) as usize * self.stride();
        self.rows.drain(..n.min(self.rows.len()));
        self.first = self.first.max(row);
    }

    fn row(&self, y: u32, x: u32, n: u32) -> &[u8] {
        let start = (y - self.first) as usize * self.stride() + RGB * x as usize;
        &self.rows[start..start + RGB * n as usize]
    }
}

fn unit(value: u8) -> f32 {
    f32::from(value) / 255.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 255")]
fn byte(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use burn::module::{ModuleMapper, Param};
    use burn::tensor::Distribution;
    use image::{RgbImage, imageops};

    use super::*;

    const CONFIG: EdsrConfig = EdsrConfig { channels: 4, blocks: 1 };

    /// Draws every parameter, so that the last layer is not zero and the model does more than upsample.
    struct Draw;

    impl ModuleMapper for Draw {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|it| it.random_like(Distribution::Uniform(-0.2, 0.2)))
        }
    }

    fn upscaler() -> Upscaler {
        let device = Device::flex();
        device.seed(7);
        let model = CONFIG.init(&device).map(&mut Draw);
        Upscaler { model, halo: CONFIG.receptive_radius(), device }
    }

    fn image(width: u32, height: u32) -> RgbImage {
        let value = |it: u32| u8::try_from(it % 256).unwrap();
        RgbImage::from_fn(width, height, |x, y| image::Rgb([value(x * 7 + y), value(x + y * 5), value(x * y)]))
    }

    /// Upscales by one tile as large as the image, where it is square.
    fn whole(upscaler: &Upscaler, image: &RgbImage) -> RgbImage {
        let (width, height) = image.dimensions();
        let values = (0..RGB).flat_map(|channel| image.pixels().map(move |it| unit(it.0[channel])));
        let shape = [1, RGB, height as usize, width as usize];
        let input = Tensor::from_data(TensorData::new(values.collect::<Vec<_>>(), shape), &upscaler.device);
        let values: Vec<f32> = upscaler.model.forward(input).into_data().try_into_vec().unwrap();
        let plane = (SCALE * SCALE * width * height) as usize;
        let value = |channel: usize, at: usize| byte(values[channel * plane + at]);
        RgbImage::from_fn(SCALE * width, SCALE * height, |x, y| {
            let at = (y * SCALE * width + x) as usize;
            image::Rgb([0, 1, 2].map(|channel| value(channel, at)))
        })
    }

    fn upscaled(upscaler: &Upscaler, image: &RgbImage, tile: u32, at_once: u32) -> RgbImage {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.png");
        image.save(&path).unwrap();
        let (mut png, mut rows) = (Vec::new(), Vec::new());
        let picture = Picture::look(&path).unwrap();
        upscaler
            .upscale(&picture, (tile, at_once), &mut png, &mut |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(rows.is_sorted() && rows.last() == Some(&image.height()), "{rows:?}");
        image::load_from_memory(&png).unwrap().into_rgb8()
    }

    #[test]
    fn tiles_give_what_the_undivided_image_gives() {
        let upscaler = upscaler();
        for (width, height) in [(40, 40), (61, 33), (33, 50)] {
            let image = image(width, height);
            let expected = whole(&upscaler, &image);
            for (tile, at_once) in [(33, 1), (24, 3), (19, 2)] {
                let found = upscaled(&upscaler, &image, tile, at_once);
                let differ = |(a, b): (&u8, &u8)| a.abs_diff(*b) > 1;
                // Sums of another order may round a value to the other side.
                let n = expected.as_raw().iter().zip(found.as_raw()).filter(|it| differ(*it)).count();
                assert_eq!(
                    (found.dimensions(), n),
                    (expected.dimensions(), 0),
                    "{width} × {height} in tiles of {tile}"
                );
            }
        }
        let plain = imageops::resize(&image(40, 40), 80, 80, imageops::FilterType::CatmullRom);
        assert!(plain != whole(&upscaler, &image(40, 40)), "the model has learnt something");
    }

    #[test]
    fn an_image_smaller_than_a_tile_is_one() {
        let upscaler = upscaler();
        let image = image(5, 3);
        assert_eq!(upscaled(&upscaler, &image, 48, 4).dimensions(), (10, 6));
        assert_eq!(upscaled(&upscaler, &self::image(1, 1), 48, 4).dimensions(), (2, 2));
    }

    #[test]
    fn whoever_asks_for_its_end_is_heard_within_a_row_of_tiles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.png");
        image(60, 60).save(&path).unwrap();
        let (picture, mut n) = (Picture::look(&path).unwrap(), 0);
        let end = &mut |_| {
            n += 1;
            ControlFlow::Break(())
        };
        let error = upscaler().upscale(&picture, (20, 4), io::sink(), end).unwrap_err();
        assert!(matches!(error, UpscaleError::Interrupted) && n == 1, "{error} {n}");
    }

    #[test]
    fn what_is_cut_short_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.png");
        image(200, 150).save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let picture = Picture::look(&path).unwrap();
        let error = upscaler().upscale(&picture, (48, 4), io::sink(), &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(&error, UpscaleError::Image(it) if it.contains("damaged")), "{error}");
    }
}
