//! What changes of the rule in the middle of an epoch cost.

use std::fmt;
use std::hint::black_box;

use plimsoll_sampler::SamplerError;
use serde::Serialize;

use super::cpu::timed;
use super::resume::{median_and_most, size};
use super::set::{Set, Setting};

/// What it costs to follow another rule from one batch to the next, and what a position takes afterwards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// What the lengths are of.
    pub data: String,
    /// How they were planned.
    pub setting: String,
    /// Number of samples of the epoch.
    pub n: usize,
    /// How often the rule was changed, evenly over the epoch.
    pub n_changes: usize,
    /// Processor time of a change in milliseconds, the median: what is left of the window is planned anew.
    pub cpu_ms: f64,
    /// Processor time of a change in milliseconds, the most.
    pub cpu_ms_most: f64,
    /// Processor time of taking a position in microseconds, the median.
    pub position_us: f64,
    /// The most that a position took as JSON, in bytes.
    pub position_bytes: usize,
    /// Samples that came more than once, or not at all.
    pub not_once: usize,
}

impl Changes {
    /// Goes through an epoch and changes between the set's budget and three quarters of it.
    ///
    /// # Errors
    ///
    /// As [`Set::planner`].
    pub fn measure<const AXES: usize>(
        set: &Set<AXES>,
        setting: Setting,
        n_changes: usize,
    ) -> Result<Self, SamplerError> {
        let n = set.lengths[0].len();
        let less = Set { budget: set.budget.map(|budget| budget * 3 / 4), ..set.clone() };
        let planners = [less.planner(setting.config(&set.lengths)?)?, set.planner(setting.config(&set.lengths)?)?];
        let mut epoch = planners[1].epoch(0);
        let mut times = vec![0u8; n];
        let (mut n_taken, mut changes, mut positions, mut position_bytes) = (0, Vec::new(), Vec::new(), 0);
        while let Some(batch) = epoch.next_batch() {
            n_taken += batch.ids.len();
            for id in batch.ids {
                times[*id as usize] = times[*id as usize].saturating_add(1);
            }
            // As many samples lie before the first change and after the last as between two.
            if n_taken * (n_changes + 1) >= (changes.len() + 1) * n && changes.len() < n_changes {
                let (next, time) = timed(|| epoch.hand_over(&planners[changes.len() % 2]));
                epoch = next?;
                changes.push(1e3 * time.as_secs_f64());
                let (position, time) = timed(|| black_box(epoch.position()));
                positions.push(1e6 * time.as_secs_f64());
                position_bytes = position_bytes.max(size(&position));
            }
        }
        let (cpu_ms, cpu_ms_most) = median_and_most(&mut changes);
        Ok(Self {
            data: set.name.clone(),
            setting: setting.name(),
            n,
            n_changes: changes.len(),
            cpu_ms,
            cpu_ms_most,
            position_us: median_and_most(&mut positions).0,
            position_bytes,
            not_once: times.iter().filter(|times| **times != 1).count(),
        })
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, setting, n, n_changes, cpu_ms, cpu_ms_most, position_us, position_bytes, not_once } = self;
        write!(f, "{n_changes} changes of the rule among {n} {data}, {setting}: {cpu_ms:.3} ms each, at most")?;
        write!(f, " {cpu_ms_most:.3} ms; a position in {position_us:.1} µs and at most {position_bytes} bytes")?;
        write!(f, "; {not_once} samples not once")
    }
}
