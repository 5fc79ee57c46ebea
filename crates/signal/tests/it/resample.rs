//! Sound at another rate.

use std::convert::Infallible;

use plimsoll_signal::{Resampled, n_resampled};

fn tone(rate: u32, hz: f32, n: u64) -> impl Iterator<Item = Result<f32, Infallible>> {
    (0..n).map(move |at| Ok((2.0 * std::f32::consts::PI * hz * at as f32 / rate as f32).sin()))
}

#[test]
fn a_tone_stays_where_it_is_at_another_rate() {
    for (from, to) in [(44_100, 16_000), (8000, 16_000), (48_000, 44_100), (11_025, 8000)] {
        let second = u64::from(from);
        let sound = Resampled::try_new(tone(from, 440.0, second), second, [from, to]).unwrap();
        let found = sound.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(found.len() as u64, n_resampled(second, [from, to]));
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
    let sound = Resampled::try_new(tone(44_100, 9000.0, 44_100), 44_100, [44_100, 8000]).unwrap();
    let found = sound.collect::<Result<Vec<_>, _>>().unwrap();
    let loudest = found[400..7600].iter().map(|it| it.abs()).fold(0.0, f32::max);
    assert!(loudest < 0.01, "{loudest}");
}
