//! Sound at another sample rate.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};

use super::fault::Fault;
use super::sound::Header;

/// Samples that are resampled at a time, or a few more.
const BLOCK: usize = 2048;

/// Returns how many samples a sound has at another rate.
pub(crate) fn n_samples(header: Header, rate: u32) -> u64 {
    let product = u128::from(header.n_samples) * u128::from(rate);
    u64::try_from(product.div_ceil(u128::from(header.rate))).unwrap_or(u64::MAX)
}

/// The samples of a sound at another rate, as many as [`n_samples`] says.
pub(crate) struct Resampled<S> {
    sound: S,
    resampler: Fft<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
    /// The next sample of the output.
    at: usize,
    n_left: u64,
}

impl<S: Iterator<Item = Result<f32, Fault>>> Resampled<S> {
    /// Passes over what the filter holds back at the beginning.
    pub(crate) fn try_new(sound: S, header: Header, rate: u32) -> Result<Self, Fault> {
        let resampler = Fft::new(header.rate as usize, rate as usize, BLOCK, 1, FixedSync::Both);
        let Ok(resampler) = resampler else { unreachable!("both rates are above 0") };
        let (input, output) = (vec![0.0; resampler.input_frames_max()], vec![0.0; resampler.output_frames_max()]);
        let (n_held, n_left) = (resampler.output_delay() as u64, n_samples(header, rate));
        let mut it = Self { at: output.len(), sound, resampler, input, output, n_left: n_left.saturating_add(n_held) };
        while n_left < it.n_left {
            it.next().transpose()?;
        }
        Ok(it)
    }

    /// Resamples the next block; after the end comes silence.
    fn fill(&mut self) -> Result<(), Fault> {
        for into in &mut self.input {
            *into = self.sound.next().transpose()?.unwrap_or(0.0);
        }
        let (n_in, n_out) = (self.input.len(), self.output.len());
        let (input, output) =
            (InterleavedSlice::new(&self.input, 1, n_in), InterleavedSlice::new_mut(&mut self.output, 1, n_out));
        let (Ok(input), Ok(mut output)) = (input, output) else { unreachable!("there is one channel") };
        if self.resampler.process_into_buffer(&input, &mut output, None).is_err() {
            unreachable!("the buffers are the resampler's own");
        }
        self.at = 0;
        Ok(())
    }
}

impl<S: Iterator<Item = Result<f32, Fault>>> Iterator for Resampled<S> {
    type Item = Result<f32, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.n_left = self.n_left.checked_sub(1)?;
        if self.at == self.output.len()
            && let Err(fault) = self.fill()
        {
            return Some(Err(fault));
        }
        self.at += 1;
        Some(Ok(self.output[self.at - 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, hz: f32, n: u64) -> impl Iterator<Item = Result<f32, Fault>> {
        (0..n).map(move |at| Ok((2.0 * std::f32::consts::PI * hz * at as f32 / rate as f32).sin()))
    }

    #[test]
    fn a_tone_stays_where_it_is_at_another_rate() {
        for (from, to) in [(44_100, 16_000), (8000, 16_000), (48_000, 44_100), (11_025, 8000)] {
            let header = Header { rate: from, n_samples: u64::from(from) };
            let sound = Resampled::try_new(tone(from, 440.0, u64::from(from)), header, to).unwrap();
            let found = sound.collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(found.len() as u64, n_samples(header, to));
            let expected = tone(to, 440.0, found.len() as u64).map(Result::unwrap);
            // The filter needs some milliseconds at either end.
            let inner = found.len() / 20..found.len() * 19 / 20;
            let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).enumerate();
            let worst = differences.filter(|(at, _)| inner.contains(at)).map(|(_, it)| it).fold(0.0, f32::max);
            // The middle of the filter may be half a sample off.
            let half = std::f32::consts::PI * 440.0 / from as f32;
            assert!(worst < 0.01 + half, "{from} to {to}: {worst}");
        }
    }

    #[test]
    fn what_is_too_high_for_the_lower_rate_is_gone() {
        let header = Header { rate: 44_100, n_samples: 44_100 };
        let sound = Resampled::try_new(tone(44_100, 9000.0, 44_100), header, 8000).unwrap();
        let found = sound.collect::<Result<Vec<_>, _>>().unwrap();
        let loudest = found[400..7600].iter().map(|it| it.abs()).fold(0.0, f32::max);
        assert!(loudest < 0.01, "{loudest}");
    }
}
