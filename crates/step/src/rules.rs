//! How the steps of a program are to be run.

use plimsoll_types::Fraction;

use crate::recovery::OptimizerRecovery;

/// How the steps of a program are to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRules {
    /// The share of the capacity that is aimed at, above 0 and at most 1; 0.9 by default, which leaves the rest to validation
    /// and to other processes.
    pub budget: f64,
    /// The samples of a part, from 1, which runs in halves where it does not fit; `None`, the default, for as many as are
    /// certain to fit.
    pub micro_batch: Option<u32>,
    /// Whether a step may run in several parts, as it may by default.
    pub may_divide: bool,
    /// Whether a sample counts in the step's mean as its length; each counts as one by default.
    pub by_length: bool,
    /// The largest global norm of a gradient, above 0; none by default.
    pub max_norm: Option<f64>,
    /// What the device is seeded from before each step, with the step's number; `None`, the default, leaves it alone.
    pub seed: Option<u64>,
    /// Where the state from before comes from, when the optimizer's step runs out of memory; from nowhere by default.
    pub recovery: OptimizerRecovery,
}

impl Default for StepRules {
    fn default() -> Self {
        Self {
            budget: 0.9,
            micro_batch: None,
            may_divide: true,
            by_length: false,
            max_norm: None,
            seed: None,
            recovery: OptimizerRecovery::Restore,
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("use `{name}` of {value}: it is {wanted}")]
pub struct SettingError {
    /// What sets it.
    pub name: &'static str,
    /// What it was given.
    pub value: f64,
    /// What would do.
    pub wanted: &'static str,
}

impl StepRules {
    /// Returns the share of the capacity that is aimed at, of rules that make sense.
    ///
    /// # Errors
    ///
    /// [`SettingError`] for others.
    pub fn check(&self) -> Result<Fraction, SettingError> {
        let refused = |name, value, wanted| Err(SettingError { name, value, wanted });
        match *self {
            Self { micro_batch: Some(0), .. } => refused("micro_batch", 0.0, "a number of samples from 1"),
            Self { micro_batch: Some(n), may_divide: false, .. } => {
                refused("micro_batch", n.into(), "left out beside `in_one_part`")
            }
            Self { max_norm: Some(norm), .. } if !(norm.is_finite() && 0.0 < norm) => {
                refused("max_norm", norm, "a finite number above 0")
            }
            Self { budget, .. } => share_of_capacity(budget),
        }
    }
}

/// Returns a share of the capacity that may be aimed at.
///
/// # Errors
///
/// [`SettingError`] for one that is not above 0 and at most 1.
pub fn share_of_capacity(budget: f64) -> Result<Fraction, SettingError> {
    let wanted = "a share of the capacity, above 0 and at most 1";
    let share = Fraction::try_new(budget).ok().filter(|it| 0.0 < it.get());
    share.ok_or(SettingError { name: "budget", value: budget, wanted })
}
