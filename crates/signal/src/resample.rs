//! Sound at another sample rate.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};

/// Samples that are resampled at a time, or a few more.
const BLOCK: usize = 2048;

/// Returns how many samples a sound has at another rate, both in Hz.
///
/// # Panics
///
/// Where the first rate is 0.
pub fn n_resampled(n_samples: u64, [from, to]: [u32; 2]) -> u64 {
    let product = u128::from(n_samples) * u128::from(to);
    u64::try_from(product.div_ceil(u128::from(from))).unwrap_or(u64::MAX)
}

/// The samples of a sound at another rate, as many as [`n_resampled`] says.
pub struct Resampled<S> {
    sound: S,
    block: Block,
    /// The next sample of the output.
    at: usize,
    n_left: u64,
}

impl<E, S: Iterator<Item = Result<f32, E>>> Resampled<S> {
    /// Takes a sound of so many samples from a rate to another, in Hz, above 0; passes over what the filter holds back at the
    /// beginning.
    ///
    /// # Errors
    ///
    /// The first of the sound's, in what is read for that.
    ///
    /// # Panics
    ///
    /// Where a rate is 0.
    pub fn try_new(sound: S, n_samples: u64, from_to: [u32; 2]) -> Result<Self, E> {
        let (block, n_left) = (Block::new(from_to), n_resampled(n_samples, from_to));
        let n_held = block.resampler.output_delay() as u64;
        let mut it = Self { at: block.output.len(), sound, block, n_left: n_left.saturating_add(n_held) };
        while n_left < it.n_left {
            it.next().transpose()?;
        }
        Ok(it)
    }

    /// Resamples the next block; after the end comes silence.
    fn fill(&mut self) -> Result<(), E> {
        for into in &mut self.block.input {
            *into = self.sound.next().transpose()?.unwrap_or(0.0);
        }
        self.block.resample();
        self.at = 0;
        Ok(())
    }
}

impl<E, S: Iterator<Item = Result<f32, E>>> Iterator for Resampled<S> {
    type Item = Result<f32, E>;

    fn next(&mut self) -> Option<Self::Item> {
        self.n_left = self.n_left.checked_sub(1)?;
        if self.at == self.block.output.len()
            && let Err(error) = self.fill()
        {
            return Some(Err(error));
        }
        self.at += 1;
        Some(Ok(self.block.output[self.at - 1]))
    }
}

/// What is resampled at a time.
struct Block {
    resampler: Fft<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Block {
    fn new([from, to]: [u32; 2]) -> Self {
        assert!(from > 0 && to > 0, "the rates are {from} and {to} Hz, both must be above 0");
        let Ok(resampler) = Fft::new(from as usize, to as usize, BLOCK, 1, FixedSync::Both) else {
            unreachable!("both rates are above 0")
        };
        let (input, output) = (vec![0.0; resampler.input_frames_max()], vec![0.0; resampler.output_frames_max()]);
        Self { resampler, input, output }
    }

    fn resample(&mut self) {
        let (n_in, n_out) = (self.input.len(), self.output.len());
        let (input, output) =
            (InterleavedSlice::new(&self.input, 1, n_in), InterleavedSlice::new_mut(&mut self.output, 1, n_out));
        let (Ok(input), Ok(mut output)) = (input, output) else { unreachable!("there is one channel") };
        if self.resampler.process_into_buffer(&input, &mut output, None).is_err() {
            unreachable!("the buffers are the resampler's own");
        }
    }
}
