//! How samples that have lengths are arranged in batches, and where they cannot be arranged so.

use plimsoll_sampler::{Objective, PlanConfig};
use plimsoll_types::Fraction;

use super::Settings;
use super::check::refused;
use crate::exit::UserError;
use crate::values::{JobName, ObjectiveSetting, Packing};

/// What is told of `sr`.
const OF_CUT: &str = "for `sr`, whose samples are cut";

/// What is told of groups.
const OF_GROUPS: &str = "where `data.together` keeps groups whole";

impl Settings {
    /// Returns what batches are to have little of.
    pub(super) fn objective(&self) -> Objective {
        match self.batch.objective {
            ObjectiveSetting::FewestBatches => Objective::FewestBatches,
            ObjectiveSetting::LeastTime => Objective::LeastTime { batch_overhead: self.batch.overhead },
        }
    }

    /// Says how samples are arranged, where that is not as usual.
    pub(crate) fn arranged(&self) -> String {
        let window = self.batch.window.0.map_or_else(String::new, |n| format!(", arranged {n} at a time"));
        match self.objective() {
            Objective::FewestBatches => window,
            Objective::LeastTime { batch_overhead } if batch_overhead <= 0.0 => window + ", for the least padding",
            Objective::LeastTime { batch_overhead } => {
                format!("{window}, for the least time with {batch_overhead} positions for each batch")
            }
        }
    }

    /// Whether anything is asked that only padded batches have.
    pub(super) fn is_arranged(&self) -> bool {
        1 < self.batch.multiple_of
            || self.batch.most_mates_kept != usual_mates()
            || self.batch.objective != ObjectiveSetting::FewestBatches
    }

    /// Refuses an arrangement that samples of this job do not have.
    pub(super) fn check_arrangement(&self) -> Result<(), UserError> {
        self.check_multiple()?;
        self.check_window()?;
        self.check_mates()?;
        self.check_objective()?;
        self.check_overhead()
    }

    fn check_multiple(&self) -> Result<(), UserError> {
        let multiple = self.batch.multiple_of;
        match (self.job, self.batch.pack) {
            _ if multiple <= 1 => Ok(()),
            (JobName::Sr, _) => refused("batch.multiple_of", multiple, &format!("1 {OF_CUT}")),
            (_, Packing::On) => refused("batch.multiple_of", multiple, "1 where `batch.pack` is true"),
            _ if self.keeps_together() => refused("batch.multiple_of", multiple, &format!("1 {OF_GROUPS}")),
            _ => Ok(()),
        }
    }

    fn check_window(&self) -> Result<(), UserError> {
        let Some(window) = self.batch.window.0 else { return Ok(()) };
        let refused = |allowed: &str| refused("batch.window", window, &format!("\"preset\" {allowed}"));
        match self.job {
            JobName::Sr => refused(OF_CUT),
            _ if self.data.stream => {
                refused("where `data.stream` is true: of a stream `data.look_ahead` samples are held")
            }
            _ => Ok(()),
        }
    }

    fn check_mates(&self) -> Result<(), UserError> {
        let (most, usual) = (self.batch.most_mates_kept, usual_mates());
        let refused = |allowed: &str| refused("batch.most_mates_kept", most, &format!("{usual} {allowed}"));
        match self.job {
            _ if most == usual => Ok(()),
            JobName::Sr => refused(OF_CUT),
            _ if self.batch.pack == Packing::On => {
                refused("where `batch.pack` is true: its rows depend on `batch.window` alone")
            }
            _ if self.data.stream => refused("where `data.stream` is true: a stream does not know the next epoch"),
            _ => Ok(()),
        }
    }

    fn check_objective(&self) -> Result<(), UserError> {
        let refused =
            |allowed: &str| refused("batch.objective", "\"least-time\"", &format!("\"fewest-batches\" {allowed}"));
        match (self.batch.objective, self.job) {
            (ObjectiveSetting::FewestBatches, _) => Ok(()),
            (_, JobName::Sr) => refused(OF_CUT),
            (_, JobName::Multitask) => refused("for `multitask`, whose samples have two lengths"),
            _ if self.batch.pack == Packing::On => refused("where `batch.pack` is true"),
            _ if self.keeps_together() => refused(OF_GROUPS),
            _ if 1 < self.batch.multiple_of => refused("where `batch.multiple_of` is above 1"),
            _ => Ok(()),
        }
    }

    fn check_overhead(&self) -> Result<(), UserError> {
        match (self.batch.objective, self.batch.overhead) {
            (ObjectiveSetting::FewestBatches, overhead) if 0.0 < overhead => {
                let allowed = "0 where `batch.objective` is \"fewest-batches\", which counts no time";
                refused("batch.overhead", overhead, allowed)
            }
            _ => Ok(()),
        }
    }
}

/// The mates that padded batches keep at most unless others are asked for.
fn usual_mates() -> Fraction {
    PlanConfig::<1>::default().most_mates_kept
}
