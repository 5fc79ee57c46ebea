//! Undisturbed runs, to compare with.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use crate::log::RunLog;
use crate::plan::Plan;
use crate::round;
use crate::setting::{Mode, SEEDS, Setting, Size};
use crate::subject::Subject;
use crate::weights::Weights;
use crate::{Failed, Place};

/// How much more than rounding alone may the weights of a run differ that ran out of memory.
///
/// Faults change how each step is divided; the undisturbed runs that give the scale differ in one division that they keep
/// all along.
pub(crate) const SLACK: f64 = 10.0;

/// What an undisturbed run ended with.
#[derive(Debug)]
pub(crate) struct Undisturbed {
    pub(crate) log: RunLog,
    pub(crate) weights: Weights,
}

/// Undisturbed runs, and the tolerance that follows from those of `sr`.
#[derive(Debug)]
pub(crate) struct References {
    runs: Mutex<BTreeMap<Setting, Arc<Undisturbed>>>,
    /// The largest distance between runs of one seed whose micro-batches differ in size.
    pub(crate) rounding: f64,
    /// The smallest distance between runs of two seeds.
    pub(crate) other_seed: f64,
}

impl References {
    /// Runs what the tolerance takes.
    pub(crate) fn make(place: &Place) -> Result<Self, Failed> {
        let mut references = Self { runs: Mutex::default(), rounding: 0.0, other_seed: f64::INFINITY };
        let of = |references: &Self, mode, seed| {
            let setting = Setting { subject: Subject::Sr, mode, seed, size: Size::Small, keeps_copy: false };
            references.of(place, setting)
        };
        for seed in 0..SEEDS {
            let (one, eight) = (of(&references, Mode::Fixed(1), seed)?, of(&references, Mode::Fixed(8), seed)?);
            let adaptive = of(&references, Mode::Adaptive, seed)?;
            let next = of(&references, Mode::Fixed(8), (seed + 1) % SEEDS)?;
            let pairs = [(&one, &eight), (&one, &adaptive), (&adaptive, &eight)];
            let distances = pairs.iter().map(|(a, b)| a.weights.distance(&b.weights));
            references.rounding = distances.fold(references.rounding, f64::max);
            references.other_seed = references.other_seed.min(next.weights.distance(&eight.weights));
        }
        Ok(references)
    }

    pub(crate) fn tolerance(&self) -> f64 {
        SLACK * self.rounding
    }

    /// Returns the undisturbed run of a setting, which is made when the first round asks for it; the others wait.
    pub(crate) fn of(&self, place: &Place, setting: Setting) -> Result<Arc<Undisturbed>, Failed> {
        // Keeping a copy changes nothing without a fault.
        let setting = Setting { keeps_copy: false, ..setting };
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.get(&setting) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(undisturbed(place, setting)?);
        runs.insert(setting, Arc::clone(&made));
        Ok(made)
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
