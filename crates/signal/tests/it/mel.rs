//! Spectra of sound.

use std::convert::Infallible;

use plimsoll_signal::{BANDS, LOWEST_RATE, LogMel};

/// Where the lowest band begins, in Hz.
const LOWEST_HZ: f32 = 60.0;

/// The scale of O'Shaughnessy.
fn mel(hz: f32) -> f32 {
    2595.0 * (1.0 + hz / 700.0).log10()
}

fn tone(rate: u32, hz: f32, seconds: f32) -> Vec<f32> {
    let at = |it: u32| 0.5 * (2.0 * std::f32::consts::PI * hz * it as f32 / rate as f32).sin();
    (0..).map_while(|it| (it as f32 / (rate as f32) < seconds).then(|| at(it))).collect()
}

fn sound(samples: &[f32]) -> impl Iterator<Item = Result<f32, Infallible>> {
    samples.iter().copied().map(Ok)
}

fn frames(spectra: &LogMel, samples: &[f32]) -> Vec<f32> {
    let Ok(values) = spectra.frames(sound(samples), spectra.n_frames(samples.len()));
    values
}

#[test]
fn a_tone_is_loudest_in_the_band_around_its_pitch() {
    for rate in [8000, 16_000, 44_100] {
        let spectra = LogMel::new(rate);
        for hz in [150.0, 440.0, 1000.0, 3000.0] {
            let tone = tone(rate, hz, 0.3);
            let Ok(values) = spectra.log_powers(sound(&tone), spectra.n_frames(tone.len()));
            let width = (mel(rate as f32 / 2.0) - mel(LOWEST_HZ)) / (BANDS + 1) as f32;
            // Of the first frames; the last one is mostly silence.
            for frame in values.chunks_exact(BANDS).take(20) {
                let loudest = (0..BANDS).max_by(|a, b| frame[*a].total_cmp(&frame[*b])).unwrap();
                let centre = mel(LOWEST_HZ) + (loudest + 1) as f32 * width;
                // A wide band gathers more of the window's side lobes, hence no sharper than one band.
                assert!((centre - mel(hz)).abs() <= width, "{hz} Hz at {rate} Hz: band {loudest}");
            }
        }
    }
}

#[test]
fn every_band_hears_something_at_every_rate() {
    for rate in [LOWEST_RATE, 5512, 8000, 11_025, 16_000, 22_050, 44_100, 48_000, 192_000] {
        // All frequencies alike, in the middle of the window, which weighs 1 there.
        let middle = rate as usize / 80;
        let click: Vec<_> = (0..=2 * middle).map(|at| if at == middle { 1.0 } else { 0.0 }).collect();
        let Ok(values) = LogMel::new(rate).log_powers(sound(&click), 1);
        assert!(values.iter().all(|it| it.exp() > 0.099), "{rate}: {values:?}");
    }
}

#[test]
fn a_recording_has_a_frame_each_10_ms_and_none_of_its_samples_is_left_out() {
    let spectra = LogMel::new(8000);
    let n_frames = [1, 200, 201, 280, 281, 8000].map(|n| spectra.n_frames(n));
    assert_eq!(n_frames, [1, 1, 2, 2, 3, 99]);
    for n in [1, 199, 200, 201, 1000] {
        assert_eq!(frames(&spectra, &vec![0.1; n]).len(), spectra.n_frames(n) * BANDS, "{n} samples");
    }
    let Ok(cut) = spectra.frames(sound(&vec![0.1; 1000]), 3);
    assert_eq!(cut.len(), 3 * BANDS);
}

#[test]
fn loudness_does_not_show_and_silence_is_flat() {
    let spectra = LogMel::new(8000);
    // Loud in every band, so that no floor shows.
    let noise: Vec<_> = (0..2000_u32).map(|it| (it * it % 20_011) as f32 / 20_011.0 - 0.5).collect();
    let quiet: Vec<_> = noise.iter().map(|it| it * 0.25).collect();
    let (loud, quiet) = (frames(&spectra, &noise), frames(&spectra, &quiet));
    let difference = loud.iter().zip(&quiet).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference < 0.01, "{difference}");
    assert!(frames(&spectra, &[0.0; 999]).iter().all(|it| it.abs() < 0.01));
}
