//! How fast devices are that divide steps between them.

use std::time::Duration;

/// Steps that a speed is the mean of: the fewer, the sooner it follows a change, and the more it varies.
const N_STEPS: u32 = 4;

/// What a micro-batch takes by itself, in seconds: about.
const OVERHEAD: f64 = 2e-3;

/// What a device has run of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Padded positions.
    pub positions: u64,
    /// What they took, without what was waited for other devices; nothing where nobody knows.
    pub took: Duration,
}

/// How fast each of some devices is, by the last steps that it ran.
///
/// Everything that a device does for its share counts as its time, such as what each micro-batch takes by itself: dealt as fast as
/// they are, all devices take as long.
/// Devices that hear of the same work come to the same speeds.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use plimsoll_sampler::{Speeds, Worked};
///
/// let mut speeds = Speeds::unknown(3);
/// assert_eq!(speeds.weights(), [1.0, 1.0, 1.0]);
/// let worked = |positions, ms| Worked { positions, took: Duration::from_millis(ms) };
/// // The third had nothing to do, and is taken to be as fast as the others are on average.
/// speeds.hear(&[worked(600, 100), worked(600, 300), Worked::default()]);
/// assert_eq!(speeds.weights(), [6_000.0, 2_000.0, 4_000.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Speeds {
    devices: Vec<Speed>,
}

/// That of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Speed {
    /// Padded positions a second.
    rate: f64,
    /// Steps that it is the mean of.
    n_steps: u32,
}

impl Speeds {
    /// Knows nothing of so many devices.
    pub fn unknown(n_devices: usize) -> Self {
        Self { devices: vec![Speed::default(); n_devices] }
    }

    /// Learns what each device has run of a step; nothing where none has run any.
    ///
    /// One that ran nothing beside others is taken to be twice as fast as before, up to the mean, so that whatever once made it
    /// slow does not keep it from taking part for ever.
    ///
    /// # Panics
    ///
    /// Where there is not one for each device.
    pub fn hear(&mut self, worked: &[Worked]) {
        assert_eq!(worked.len(), self.devices.len(), "what each device has run");
        let (mean, is_idle) = (self.mean(), worked.iter().all(|it| *it == Worked::default()));
        for (speed, Worked { positions, took }) in self.devices.iter_mut().zip(worked) {
            if 0 < *positions && !took.is_zero() {
                speed.n_steps = N_STEPS.min(speed.n_steps + 1);
                speed.rate += (*positions as f64 / took.as_secs_f64() - speed.rate) / f64::from(speed.n_steps);
            } else if speed.rate < mean && 0 < speed.n_steps && !is_idle {
                speed.rate = mean.min(2.0 * speed.rate);
            }
        }
    }

    /// Returns what each device should take beside the others: its speed in padded positions a second, the mean where that is not
    /// known, and 1 where that of none is.
    pub fn weights(&self) -> Vec<f64> {
        let mean = self.mean();
        self.devices.iter().map(|it| if it.n_steps == 0 { mean } else { it.rate }).collect()
    }

    /// Returns what a micro-batch is taken to take by itself, in seconds; nothing where no speed is known.
    ///
    /// With 2 ms, of 1, 2, 4 and 8, steps of two ranks took no more than 3 % longer than with the best of them
    /// (`docs/measured/dealing-2026-11-30.md`).
    pub fn overhead(&self) -> Option<f64> {
        self.devices.iter().any(|it| 0 < it.n_steps).then_some(OVERHEAD)
    }

    /// Returns the mean speed of those that are known.
    fn mean(&self) -> f64 {
        let known = self.devices.iter().filter(|it| 0 < it.n_steps);
        let (sum, n) = known.fold((0.0, 0_u32), |(sum, n), it| (sum + it.rate, n + 1));
        if n == 0 { 1.0 } else { sum / f64::from(n) }
    }
}
