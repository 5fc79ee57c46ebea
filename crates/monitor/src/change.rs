//! What to change, and what it would help.

use serde::{Deserialize, Serialize};

use crate::limit::{Limit, WELL_USED};
use crate::settings::{ChosenBy, StepSettings};
use crate::text::{share, time};
use crate::work::{MUCH as MUCH_PADDING, Work};

/// The most changes that are named: of many, none is made.
const MOST: usize = 3;
/// The part of a run's time from which on lost time is worth a change.
const MUCH_TIME: f64 = 0.1;
/// Seconds below which nobody changes a setting for lost time, whatever part of a run they are.
const LEAST_TIME: f64 = 10.0;

/// A change of the configuration that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The key.
    pub setting: String,
    /// What to do with it.
    pub change: String,
    /// What was measured that speaks for it.
    pub figure: String,
}

impl SettingChange {
    fn new(setting: &str, change: &str, figure: String) -> Self {
        Self { setting: setting.to_owned(), change: change.to_owned(), figure }
    }
}

/// What was measured of a run that may speak for a change.
pub(crate) struct Measured<'a> {
    /// Wall time in seconds.
    pub(crate) seconds: f64,
    /// Steps that were done again, and what they took the first time in seconds.
    pub(crate) undone: (u64, f64),
    /// What steps waited for their samples in seconds, and which part of their time that was.
    pub(crate) waiting: Option<(f64, f64)>,
    pub(crate) work: Option<Work>,
    pub(crate) steady_budget_share: Option<f64>,
    pub(crate) limit: Option<Limit>,
    pub(crate) settings: &'a StepSettings,
}

impl Measured<'_> {
    /// Names the changes that would help most, the first of them first.
    pub(crate) fn changes(&self) -> Vec<SettingChange> {
        let all = [self.of_time(), self.of_waiting(), self.of_padding(), self.of_memory()];
        all.into_iter().flatten().take(MOST).collect()
    }

    fn of_time(&self) -> Option<SettingChange> {
        let (n_steps, lost) = self.undone;
        (LEAST_TIME.max(MUCH_TIME * self.seconds) < lost).then(|| {
            let figure = format!("{n_steps} steps were done twice, {} of {}", time(lost), time(self.seconds));
            SettingChange::new("train.checkpoint_every", "a smaller one loses less when a process dies", figure)
        })
    }

    fn of_waiting(&self) -> Option<SettingChange> {
        let (seconds, part) = self.waiting.filter(|it| LEAST_TIME <= it.0 && MUCH_TIME <= it.1)?;
        let figure = format!("steps waited {} for samples, {} of their time", time(seconds), share(part));
        Some(SettingChange::new("data.workers", "more of them read more samples at once", figure))
    }

    fn of_padding(&self) -> Option<SettingChange> {
        let work = self.work.filter(|it| self.settings.lacks_edges && MUCH_PADDING <= it.padding)?;
        let figure = format!("{} of the positions were padding", share(work.padding));
        Some(SettingChange::new("batch.n_edges", "more edges pad less", figure))
    }

    fn of_memory(&self) -> Option<SettingChange> {
        let used = self.steady_budget_share?;
        let figure = format!("steps reached {} of the budget", share(used));
        let (setting, change) = match self.limit? {
            Limit::Memory if self.settings.is_capacity_set => {
                ("memory.capacity", "a larger one, where the device has more, may let steps grow")
            }
            Limit::Length => ("train.steps", "more of them let the sizes settle"),
            _ if WELL_USED <= used => return None,
            Limit::EffectiveBatch => {
                ("batch.effective_batch_size", "a larger one takes more memory, and changes what is learnt")
            }
            Limit::BatchesPerStep => ("batch.batches_per_step", "1 lets a micro-batch hold a whole step"),
            Limit::Bounds => ("batch.batch_max", "a larger one takes more memory for the same step"),
            Limit::Fixed if self.settings.chosen_by == ChosenBy::BatchSize => {
                ("batch.batch_size", "\"adaptive\" finds how much fits")
            }
            Limit::Fixed => ("policy.kind", "\"certified\" finds how much fits"),
            Limit::StepwiseTarget => ("policy.stepwise_target", "a higher one lets sizes grow"),
            Limit::Adjustments => ("policy.max_adjustments", "more of them let sizes grow"),
            Limit::Memory | Limit::Certainty => return None,
        };
        Some(SettingChange::new(setting, change, figure))
    }
}
