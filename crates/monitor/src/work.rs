//! How much of the work was real, and how much padding.

use plimsoll_types::StepDone;
use serde::{Deserialize, Serialize};

use crate::text::{share, short};

/// Padding from which on it is told: with the default edges real data have 3 to 6 %.
pub(crate) const MUCH: f64 = 0.15;
/// By so much padding is told to be above what was planned: a twentieth of the positions.
pub(crate) const ABOVE_PLAN: f64 = 0.05;

/// What the committed steps did, where their samples are padded and the log says how long these are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Positions with the padding: what the kernels saw.
    pub padded_positions: u64,
    /// Positions of the samples themselves.
    pub real_positions: u64,
    /// The part of the positions that was padding, from 0 to 1.
    pub padding: f64,
    /// Real positions by the time of these steps.
    pub real_positions_per_second: Option<f64>,
}

/// Positions and time of steps of which the log says how long the samples are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkSum {
    padded_positions: u64,
    real_positions: u64,
    seconds: f64,
}

impl WorkSum {
    pub(crate) fn hear(&mut self, step: &StepDone) {
        let Some(real) = step.real_positions else { return };
        self.padded_positions = self.padded_positions.saturating_add(step.padded_positions());
        self.real_positions = self.real_positions.saturating_add(real);
        self.seconds += step.seconds;
    }

    /// Returns what they come to; `None` where nobody knows how long the samples are, as where a log of before says of each rank
    /// what all of them ran.
    pub(crate) fn work(self) -> Option<Work> {
        let Self { padded_positions, real_positions, seconds } = self;
        (0 < padded_positions && real_positions <= padded_positions).then(|| Work {
            padded_positions,
            real_positions,
            padding: 1.0 - real_positions as f64 / padded_positions as f64,
            real_positions_per_second: rate(real_positions, seconds),
        })
    }

    /// Adds what other ranks did in the time of these steps; nothing is known where one of them does not say it.
    pub(crate) fn with(mut self, others: impl IntoIterator<Item = Option<Work>>) -> Self {
        for other in others {
            let Some(work) = other else { return Self::default() };
            self.padded_positions = self.padded_positions.saturating_add(work.padded_positions);
            self.real_positions = self.real_positions.saturating_add(work.real_positions);
        }
        self
    }
}

impl Work {
    /// Returns that of one step; `None` where nobody knows how long its samples are.
    pub(crate) fn of(step: &StepDone) -> Option<Self> {
        let mut sum = WorkSum::default();
        sum.hear(step);
        sum.work()
    }

    /// Writes it in one line, in the samples' unit of length.
    pub(crate) fn line(&self, unit: &str, planned: Option<f64>) -> String {
        let rate = self.real_positions_per_second.map_or_else(String::new, |it| format!(" ({} per second)", short(it)));
        let planned = planned.map_or_else(String::new, |it| format!(" ({} planned)", share(it)));
        format!("{} {unit}{rate}, and {} padding{planned}", self.real_positions, share(self.padding))
    }

    /// Writes the padding, and what the edges make of the samples where that is known.
    pub(crate) fn against(&self, planned: Option<f64>) -> String {
        let planned = planned.map_or_else(String::new, |it| format!(" ({} planned)", share(it)));
        share(self.padding) + &planned
    }

    /// Whether more is padded than the edges need.
    pub(crate) fn is_above(&self, planned: Option<f64>) -> bool {
        planned.is_some_and(|it| it + ABOVE_PLAN < self.padding)
    }
}

/// Divides samples by the time that they took, unless no time passed.
pub(crate) fn rate(samples: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| samples as f64 / seconds)
}
