//! How long it takes to go on in the middle of an epoch.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use plimsoll_sampler::{PlanPosition, SamplerError};
use serde::Serialize;

use super::cpu::timed;
use super::set::{Set, Setting};

/// How long it takes from a position to the next batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resume {
    /// What the lengths are of.
    pub data: String,
    /// Number of samples of the epoch.
    pub n: usize,
    /// Samples of a window.
    pub window: usize,
    /// Samples that were taken before.
    pub n_taken: usize,
    /// Processor time in milliseconds, the median.
    pub cpu_ms: f64,
    /// Processor time in milliseconds, the most.
    pub cpu_ms_most: f64,
    /// Wall-clock time in milliseconds, the median; other programs lengthen it.
    pub wall_ms: f64,
    /// Size of the position as JSON, in bytes.
    pub position_bytes: usize,
}

impl Resume {
    /// Takes half of an epoch, and resumes `n_repeats` times from there; at least once.
    ///
    /// # Errors
    ///
    /// As [`Set::planner`].
    pub fn measure<const AXES: usize>(
        set: &Set<AXES>,
        setting: Setting,
        n_repeats: usize,
    ) -> Result<Self, SamplerError> {
        let n = set.lengths[0].len();
        let planner = set.planner(setting.config(&set.lengths)?)?;
        let mut epoch = planner.epoch(0);
        let mut n_taken = 0;
        while let Some(batch) = if n_taken < n / 2 { epoch.next_batch() } else { None } {
            n_taken += batch.ids.len();
        }
        let position = epoch.position();
        let (mut cpu, mut wall) = (Vec::new(), Vec::new());
        for _ in 0..n_repeats.max(1) {
            let begun = Instant::now();
            let (resumed, time) = timed(|| {
                let mut resumed = planner.resume(black_box(&position))?;
                black_box(resumed.next_batch());
                Ok::<_, SamplerError>(resumed)
            });
            cpu.push(1e3 * time.as_secs_f64());
            wall.push(1e3 * begun.elapsed().as_secs_f64());
            drop(resumed?);
        }
        let (cpu_ms, cpu_ms_most) = median_and_most(&mut cpu);
        Ok(Self {
            data: set.name.clone(),
            n,
            window: planner.config().window(n),
            n_taken,
            cpu_ms,
            cpu_ms_most,
            wall_ms: median_and_most(&mut wall).0,
            position_bytes: size(&position),
        })
    }
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n, window, cpu_ms, cpu_ms_most, wall_ms, position_bytes, .. } = self;
        write!(
            f,
            "resuming in the middle of {n} {data}, window {window}: {cpu_ms:.3} ms, at most {cpu_ms_most:.3} ms"
        )?;
        write!(f, " ({wall_ms:.3} ms on the wall clock), from {position_bytes} bytes")
    }
}

/// Of no times at all, both are 0.
pub(super) fn median_and_most(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let at = |index: usize| times.get(index).copied().unwrap_or(0.0);
    (at(times.len() / 2), at(times.len().saturating_sub(1)))
}

pub(super) fn size(position: &PlanPosition) -> usize {
    serde_json::to_vec(position).map_or(0, |it| it.len())
}
