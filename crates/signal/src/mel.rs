//! Logarithmic mel spectra of sound.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// Bands of a spectrum: enough to tell vowels apart, and a common number for speech.
pub const BANDS: usize = 40;

/// Length of a frame, and the distance between the starts of two, in ms: what most speech recognisers use.
const WINDOW_MS: u32 = 25;
const HOP_MS: u32 = 10;

/// Where the lowest band begins, in Hz: below lies hum.
const LOWEST_HZ: f32 = 60.0;

/// The lowest sample rate, in Hz, at which each band has a frequency of its own.
pub const LOWEST_RATE: u32 = 4000;

/// Frames that memory is taken for before the sound is read, about three minutes: a head may promise more than there is.
const FRAMES_AT_ONCE: usize = 1 << 14;

/// Power below which nothing is told apart: that of the rounding to 16 bit, times the frame.
const FLOOR: f32 = 1e-8;

/// Computes the spectra of sound of one sample rate.
///
/// # Sources
///
/// Davis and Mermelstein, "Comparison of parametric representations for monosyllabic word recognition in continuously
/// spoken sentences", IEEE TASSP 1980; the mel scale is that of O'Shaughnessy, `2595 · log10(1 + f / 700)`.
pub struct LogMel {
    rate: u32,
    window: Vec<f32>,
    hop: usize,
    transform: Arc<dyn RealToComplex<f32>>,
    bands: Vec<Band>,
}

/// A triangle over some frequencies.
struct Band {
    first: usize,
    weights: Vec<f32>,
}

impl LogMel {
    /// Prepares for a sample rate.
    ///
    /// # Panics
    ///
    /// Where it is below [`LOWEST_RATE`].
    pub fn new(rate: u32) -> Self {
        assert!(rate >= LOWEST_RATE, "the sample rate is {rate} Hz, at least {LOWEST_RATE} are needed");
        let window = hann(samples(rate, WINDOW_MS));
        // Twice the frame: the lowest bands are narrower than the distance of a shorter transform's frequencies.
        let length = (2 * window.len()).next_power_of_two();
        let transform = RealFftPlanner::new().plan_fft_forward(length);
        Self { rate, window, hop: samples(rate, HOP_MS), transform, bands: bands(rate, length) }
    }

    /// Returns the sample rate, in Hz.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Returns the number of frames of so many samples; the last one is filled up, so that no sample is left out.
    pub fn n_frames(&self, n_samples: usize) -> usize {
        1 + n_samples.saturating_sub(self.window.len()).div_ceil(self.hop)
    }

    /// Returns the normalised spectra of so many frames at most, and holds no more of the sound than one of them.
    ///
    /// # Errors
    ///
    /// The first of the sound's.
    ///
    /// # Shapes
    ///
    /// - output: `[n_frames, BANDS]`
    pub fn frames<E>(&self, sound: impl Iterator<Item = Result<f32, E>>, n_frames: usize) -> Result<Vec<f32>, E> {
        let mut values = self.log_powers(sound, n_frames)?;
        normalise(&mut values);
        Ok(values)
    }

    /// Returns the logarithm of the power in each band of each frame: what [`Self::frames`] normalises.
    ///
    /// # Errors
    ///
    /// The first of the sound's.
    ///
    /// # Shapes
    ///
    /// - output: `[n_frames, BANDS]`
    pub fn log_powers<E>(
        &self,
        mut sound: impl Iterator<Item = Result<f32, E>>,
        n_frames: usize,
    ) -> Result<Vec<f32>, E> {
        let mut scratch = Scratch::new(&*self.transform);
        let mut values = Vec::with_capacity(n_frames.min(FRAMES_AT_ONCE) * BANDS);
        let mut held = Vec::with_capacity(self.window.len());
        for _ in 0..n_frames {
            let n_missing = self.window.len() - held.len();
            for sample in sound.by_ref().take(n_missing) {
                held.push(sample?);
            }
            self.transform(&held, &mut scratch);
            values.extend(self.bands.iter().map(|band| (band.power(&scratch.powers) + FLOOR).ln()));
            held.drain(..self.hop.min(held.len()));
        }
        Ok(values)
    }

    /// Computes the power of each frequency of a frame, which is shorter than the window at the end of a sound.
    fn transform(&self, held: &[f32], Scratch { input, spectrum, inner, powers }: &mut Scratch) {
        let (frame, rest) = input.split_at_mut(held.len());
        frame.iter_mut().zip(held).zip(&self.window).for_each(|((input, it), weight)| *input = it * weight);
        // The transform leaves numbers of its own there.
        rest.fill(0.0);
        if self.transform.process_with_scratch(input, spectrum, inner).is_err() {
            unreachable!("the buffers are the transform's own");
        }
        powers.iter_mut().zip(&*spectrum).for_each(|(power, it)| *power = it.norm_sqr());
    }
}

/// What a transform is computed in.
struct Scratch {
    input: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    inner: Vec<Complex<f32>>,
    powers: Vec<f32>,
}

impl Scratch {
    fn new(transform: &dyn RealToComplex<f32>) -> Self {
        let spectrum = transform.make_output_vec();
        let powers = vec![0.0; spectrum.len()];
        Self { input: transform.make_input_vec(), spectrum, inner: transform.make_scratch_vec(), powers }
    }
}

impl Band {
    /// Returns its power, of those of all frequencies.
    fn power(&self, powers: &[f32]) -> f32 {
        self.weights.iter().zip(&powers[self.first..]).map(|(weight, it)| weight * it).sum()
    }
}

fn samples(rate: u32, milliseconds: u32) -> usize {
    rate as usize * milliseconds as usize / 1000
}

fn hann(n: usize) -> Vec<f32> {
    let at = |it| (std::f32::consts::PI * (it as f32 + 0.5) / n as f32).sin().powi(2);
    (0..n).map(at).collect()
}

/// Returns the triangles for a transform of this length.
fn bands(rate: u32, length: usize) -> Vec<Band> {
    let (low, high) = (mel(LOWEST_HZ), mel(rate as f32 / 2.0));
    let corner = |index: usize| hertz(low + (high - low) * index as f32 / (BANDS + 1) as f32);
    let frequency = |bin: usize| bin as f32 * rate as f32 / length as f32;
    let band = |index| {
        let (left, centre, right) = (corner(index), corner(index + 1), corner(index + 2));
        let weight = |hz: f32| ((hz - left) / (centre - left)).min((right - hz) / (right - centre));
        let inside = |bin: &usize| left < frequency(*bin) && frequency(*bin) < right;
        let bins: Vec<_> = (0..=length / 2).filter(inside).collect();
        Band { first: bins[0], weights: bins.iter().map(|bin| weight(frequency(*bin))).collect() }
    };
    (0..BANDS).map(band).collect()
}

fn mel(hz: f32) -> f32 {
    2595.0 * (1.0 + hz / 700.0).log10()
}

fn hertz(mel: f32) -> f32 {
    700.0 * (10.0_f32.powf(mel / 2595.0) - 1.0)
}

/// Takes off each band's mean, and divides by the common standard deviation, unless that is next to nothing.
fn normalise(values: &mut [f32]) {
    let n_frames = (values.len() / BANDS) as f32;
    for band in 0..BANDS {
        let mean = values.iter().skip(band).step_by(BANDS).sum::<f32>() / n_frames;
        values.iter_mut().skip(band).step_by(BANDS).for_each(|it| *it -= mean);
    }
    let variance = values.iter().map(|it| it * it).sum::<f32>() / values.len() as f32;
    for value in values {
        *value /= (variance + 1e-5).sqrt();
    }
}
