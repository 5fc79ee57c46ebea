//! Undisturbed runs, to compare with.

use std::collections::BTreeMap;
use std::fs;

use crate::log::RunLog;
use crate::plan::Plan;
use crate::round;
use crate::setting::{Mode, SEEDS, Setting, Size};
use crate::weights::Weights;
use crate::{Failed, Place};

/// How much more than rounding alone may the weights of a run differ that ran out of memory.
///
/// Faults change how each step is divided; the undisturbed runs that give the scale differ in one division that they keep
/// all along.
const SLACK: f64 = 10.0;

/// What an undisturbed run ended with.
#[derive(Debug)]
pub(crate) struct Undisturbed {
    pub(crate) log: RunLog,
    pub(crate) weights: Weights,
}

/// All undisturbed runs, and the tolerance that follows from them.
#[derive(Debug)]
pub(crate) struct References {
    runs: BTreeMap<Setting, Undisturbed>,
    /// The largest distance between runs of one seed whose micro-batches differ in size.
    pub(crate) rounding: f64,
    /// The smallest distance between runs of two seeds.
    pub(crate) other_seed: f64,
}

impl References {
    /// Runs what all rounds need.
    pub(crate) fn make(place: &Place) -> Result<Self, Failed> {
        let (mut runs, mut rounding, mut other_seed) = (BTreeMap::new(), 0.0f64, f64::INFINITY);
        for seed in 0..SEEDS {
            for mode in [Mode::Deterministic, Mode::Adaptive, Mode::Fixed(1), Mode::Fixed(8)] {
                let setting = Setting { mode, seed, size: Size::Small, keeps_copy: false };
                runs.insert(setting, undisturbed(place, setting)?);
            }
        }
        let weights = |mode, seed| &runs[&Setting { mode, seed, size: Size::Small, keeps_copy: false }].weights;
        for seed in 0..SEEDS {
            let (one, eight) = (weights(Mode::Fixed(1), seed), weights(Mode::Fixed(8), seed));
            let adaptive = weights(Mode::Adaptive, seed);
            rounding = rounding.max(one.distance(eight)).max(one.distance(adaptive)).max(adaptive.distance(eight));
            let next = weights(Mode::Fixed(8), (seed + 1) % SEEDS);
            other_seed = other_seed.min(next.distance(eight));
        }
        Ok(Self { runs, rounding, other_seed })
    }

    pub(crate) fn tolerance(&self) -> f64 {
        SLACK * self.rounding
    }

    pub(crate) fn of(&self, setting: Setting) -> &Undisturbed {
        // Keeping a copy changes nothing without a fault.
        &self.runs[&Setting { keeps_copy: false, ..setting }]
    }
}

/// Runs a training without a fault.
pub(crate) fn undisturbed(place: &Place, setting: Setting) -> Result<Undisturbed, Failed> {
    let folder = place.work.join("undisturbed");
    let plan = Plan { round: 0, setting, outside: Vec::new(), inside: Vec::new() };
    let course = round::run(place, &plan, &folder)?;
    if let Some(trouble) = course.trouble {
        return Err(format!("train without a fault: {trouble}").into());
    }
    let made = Undisturbed { log: RunLog::of_run(&course.run)?, weights: Weights::of_run(&course.run)? };
    fs::remove_dir_all(&folder)?;
    Ok(made)
}
