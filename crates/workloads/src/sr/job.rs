//! The job.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_train::{Goal, Inference, Job, Loss, Metric, StepError, Validation, sent, uploaded};
use plimsoll_types::{Extent, StepShape};

use super::gallery::Resolution;
use super::model::{Edsr, EdsrConfig, SCALE};
use super::photos::{BORDER, Photo, Photos, psnr};
use super::source::{CropBuffer, Crops};
use super::tiles::{Span, spans};
use crate::store::Window;

/// Size and data of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrConfig {
    /// The model.
    pub model: EdsrConfig,
    /// Crops of every image per epoch.
    pub crops_per_image: u32,
    /// Edge of a validation tile in pixels at the input resolution, context included.
    pub validation_tile: u32,
    /// Seed of the crops.
    pub seed: u64,
}

/// Super-resolution by two.
#[derive(Debug)]
pub struct Sr {
    config: SrConfig,
    photos: Arc<Photos>,
    crops: Arc<Crops>,
}

impl Sr {
    /// Trains on these images.
    pub fn new(config: SrConfig, photos: Arc<Photos>) -> Self {
        let crops = Arc::new(Crops::new(Arc::clone(&photos), config.crops_per_image, config.seed));
        Self { config, photos, crops }
    }

    /// Returns the mean PSNR of images that are held out.
    fn measured(
        &self,
        model: &Edsr,
        photos: &[Photo],
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        let model = burn::module::Module::valid(model);
        let tiles: Vec<_> = photos.iter().map(|photo| self.tiles(photo)).collect();
        // A photo may have to be decoded for a tile of it.
        let chosen = inference.choose_in(&tiles.iter().map(Vec::len).collect::<Vec<_>>());
        let (mut value, mut baseline) = (0.0, 0.0);
        for (photo, of_photo) in &chosen {
            let (photo, all) = (&photos[*photo], &tiles[*photo]);
            let (is_whole, of_photo) = (of_photo.len() == all.len(), of_photo.iter().map(|it| all[*it]));
            let measured = self.psnr_of(&model, photo, &of_photo.collect::<Vec<_>>(), is_whole, device, inference)?;
            (value, baseline) = (value + measured.0, baseline + measured.1);
        }
        let n = chosen.len() as f64;
        let (value, baseline) = (value / n, baseline / n);
        Ok(Metric { name: "PSNR (dB)".to_owned(), value, baseline, goal: Goal::Highest }.into())
    }

    /// Covers an image with tiles.
    fn tiles(&self, photo: &Photo) -> Vec<Tile> {
        let edge = self.config.validation_tile.min(photo.low.0).min(photo.low.1);
        let halo = self.config.model.receptive_radius().min(edge - 1);
        let rows = spans(photo.low.1, edge, halo);
        let columns = spans(photo.low.0, edge, halo);
        let tiles = rows.iter().flat_map(|y| columns.iter().map(|x| Tile { x: *x, y: *y, edge }));
        // Of small tiles and of narrow images, some lie wholly in the border that the metric leaves out.
        tiles.filter(|it| !it.output(photo).is_empty()).collect()
    }

    /// Returns the PSNR of an image as far as these tiles cover it, and that of bicubic upsampling.
    fn psnr_of(
        &self,
        model: &Edsr,
        photo: &Photo,
        tiles: &[Tile],
        is_whole: bool,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<(f64, f64), StepError> {
        let Some(edge) = tiles.first().map(|it| it.edge) else { return Ok((f64::NAN, f64::NAN)) };
        let mut squares = vec![0.0; tiles.len()];
        inference.run(tiles.len(), edge, &mut |range: Range<usize>| {
            let upsampled = self.upsample(model, photo, &tiles[range.clone()], device)?;
            let upsampled = upsampled.as_slice::<f32>().map_err(|error| StepError::Device(error.to_string()))?;
            let tile_len = upsampled.len() / range.len();
            for (values, index) in upsampled.chunks_exact(tile_len).zip(range) {
                squares[index] = self.squares(photo, tiles[index], values)?;
            }
            Ok(())
        })?;
        let outputs = || tiles.iter().map(|it| it.output(photo));
        let n_values = outputs().map(|it| 3 * u64::from(it.width) * u64::from(it.height)).sum();
        let value = psnr(squares.iter().sum(), n_values);
        inference.go_on()?;
        if is_whole {
            return Ok((value, self.photos.baseline(photo).map_err(StepError::Data)?));
        }
        let mut of_bicubic = 0;
        for tile in tiles {
            let upsampled = self.photos.bicubic_squares(photo, tile.input(), tile.output(photo));
            of_bicubic += upsampled.map_err(StepError::Data)?;
        }
        Ok((value, psnr(of_bicubic as f64, n_values)))
    }

    /// Runs tiles of one image through the model; returns `[tiles, 3, 2 · edge, 2 · edge]` values on the host.
    fn upsample(&self, model: &Edsr, photo: &Photo, tiles: &[Tile], device: &Device) -> Result<TensorData, StepError> {
        let edge = tiles[0].edge as usize;
        let mut pixels = vec![0; 3 * edge * edge];
        let mut planes = Vec::with_capacity(tiles.len() * pixels.len());
        for tile in tiles {
            self.read(photo, Resolution::Low, tile.input(), &mut pixels)?;
            (0..3).for_each(|channel| planes.extend(pixels.iter().skip(channel).step_by(3).map(|it| unit(*it))));
        }
        let data = TensorData::new(planes, [tiles.len(), 3, edge, edge]);
        let device = device.clone().inner();
        Ok(model.forward(uploaded(Tensor::from_data(data, &device), &device)).try_into_data()?)
    }

    /// Returns the sum of squared 8-bit errors over what counts of a tile.
    fn squares(&self, photo: &Photo, tile: Tile, values: &[f32]) -> Result<f64, StepError> {
        let window = tile.output(photo);
        let mut truth = vec![0; 3 * window.width as usize * window.height as usize];
        self.read(photo, Resolution::High, window, &mut truth)?;
        let side = (tile.edge * SCALE) as usize;
        let offset = |at: u32, start: u32| (at - start * SCALE) as usize;
        let (left, top) = (offset(window.x, tile.x.start), offset(window.y, tile.y.start));
        let mut squares = 0.0;
        for (at, pixel) in truth.chunks_exact(3).enumerate() {
            let (x, y) = (left + at % window.width as usize, top + at / window.width as usize);
            for (channel, truth) in pixel.iter().enumerate() {
                let value = values[(channel * side + y) * side + x];
                squares += f64::from((value.clamp(0.0, 1.0) * 255.0).round() - f32::from(*truth)).powi(2);
            }
        }
        Ok(squares)
    }

    fn read(&self, photo: &Photo, resolution: Resolution, window: Window, into: &mut [u8]) -> Result<(), StepError> {
        let read = self.photos.pixels(photo, resolution, window, into);
        read.map_err(|reason| StepError::Data(format!("read the decoded pixels of {reason}")))
    }
}

/// A square of an image, and what of it counts.
#[derive(Clone, Copy, Debug)]
struct Tile {
    x: Span,
    y: Span,
    edge: u32,
}

impl Tile {
    fn input(self) -> Window {
        Window { x: self.x.start, y: self.y.start, width: self.edge, height: self.edge }
    }

    /// Returns what counts at the output resolution, less the border that the metric leaves out.
    fn output(self, photo: &Photo) -> Window {
        let inside = |span: Span, len: u32| {
            let (start, end) = (span.core_start * SCALE, span.core_end * SCALE);
            (start.max(BORDER), end.min(len - BORDER).max(start.max(BORDER)))
        };
        let (x, right) = inside(self.x, photo.high.0);
        let (y, bottom) = inside(self.y, photo.high.1);
        Window { x, y, width: right - x, height: bottom - y }
    }
}

impl Job for Sr {
    type Source = Crops;
    type Model = Edsr;
    type Batch = Pairs;

    fn name(&self) -> &'static str {
        "sr"
    }

    fn program(&self) -> String {
        let EdsrConfig { channels, blocks } = self.config.model;
        format!("sr with {channels} channels and {blocks} blocks")
    }

    fn fingerprint(&self) -> String {
        let (program, n_train, crops) = (self.program(), self.photos.train.len(), self.config.crops_per_image);
        format!("{program} on {n_train} images of {crops} crops, checksum {:016x}", self.photos.checksum())
    }

    fn source(&self) -> Arc<Crops> {
        Arc::clone(&self.crops)
    }

    fn init(&self, device: &Device) -> Edsr {
        self.config.model.init(device)
    }

    fn unit_of_length(&self) -> &'static str {
        "pixels"
    }

    fn batch(&self, buffer: &CropBuffer, samples: Range<usize>, device: &Device) -> Pairs {
        let edge = buffer.pixels.edge() as usize;
        Pairs {
            low: planes(buffer.pixels.lr(), &samples, edge, device),
            high: planes(buffer.pixels.hr(), &samples, edge * SCALE as usize, device),
        }
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Pairs {
        Pairs { low: blank(shape, 1, device), high: blank(shape, SCALE, device) }
    }

    /// The mean absolute error, as in the EDSR paper.
    fn mean_loss(&self, model: &Edsr, Pairs { low, high }: Pairs, _task_weights: &[f32]) -> Loss {
        (model.forward(low) - high).abs().mean().into()
    }

    fn blank_forward(&self, model: &Edsr, shape: StepShape, device: &Device) -> Tensor<1> {
        model.forward(uploaded(blank(shape, 1, device), device)).flatten(0, 3)
    }

    fn describe_validation(&self, extent: Extent) -> String {
        let edge = extent.edge();
        format!("a tile of {edge} × {edge} pixels, which `sr.validation_tile` makes smaller")
    }

    fn validate(
        &self,
        model: &Edsr,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.measured(model, &self.photos.validation, device, inference)
    }

    fn has_test(&self) -> bool {
        !self.photos.test.is_empty()
    }

    fn test(
        &self,
        model: &Edsr,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.measured(model, &self.photos.test, device, inference)
    }
}

/// Crops and what they are to become, with values from 0 to 1.
///
/// # Shapes
///
/// - `low`: `[batch_size, 3, edge, edge]`
/// - `high`: `[batch_size, 3, 2 · edge, 2 · edge]`
#[derive(Debug)]
pub struct Pairs {
    low: Tensor<4>,
    high: Tensor<4>,
}

/// Returns black images of `scale` times the edge.
fn blank(shape: StepShape, scale: u32, device: &Device) -> Tensor<4> {
    let edge = (shape.edge() * scale) as usize;
    Tensor::zeros([shape.samples as usize, 3, edge, edge], device)
}

/// Turns a range of 8-bit samples into a tensor of shape `[samples, 3, edge, edge]` with values from 0 to 1.
fn planes(pixels: &[u8], samples: &Range<usize>, edge: usize, device: &Device) -> Tensor<4> {
    let sample_len = 3 * edge * edge;
    let values: Vec<f32> =
        pixels[samples.start * sample_len..samples.end * sample_len].iter().map(|it| unit(*it)).collect();
    sent(TensorData::new(values, [samples.len(), 3, edge, edge]), device)
}

fn unit(value: u8) -> f32 {
    f32::from(value) / 255.0
}
