//! When the bucketed policy may change its batch sizes.

use plimsoll_types::Cells;
use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::bounds::LARGEST;
use crate::error::check_range;

/// When the bucketed policy may change its batch sizes.
///
/// Where nothing else is said, a key means what it means in [`crate::CertifiedConfig`], with the same default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BucketedConfig {
    /// What samples are padded to, none before one that it covers; there is no default.
    #[serde(rename = "edges")]
    pub cells: Cells,
    /// Largest micro-batch of any cell; 64 by default.
    pub batch_max: u32,
    /// The first batch size of each cell; 1 for all by default, because nothing is known yet.
    pub start: Option<Vec<u32>>,
    /// A batch may be raised to one whose upper bound is within this share of the budget; 0.985 by default.
    pub raise_below: f64,
    /// Taken off `raise_below`: the share of the budget by which equal steps differ; 0 by default.
    pub noise: f64,
    /// Steps before the first increase.
    ///
    /// 2 by default: the first step creates the optimizer's state, and the second is the first with all that is
    /// resident.
    /// None has to confirm it, since a step has micro-batches of many cells, and each is a reading; and an epoch of
    /// small data has few steps to wait for.
    pub warm_up_steps: u64,
    /// Steps after a change before the next increase; 1 by default, for the same reasons.
    pub cooldown_steps: u64,
    /// Least gain in samples, in one cell at least, for which an increase is worth it; 0.02 by default.
    pub min_gain: f64,
    /// Steps until a closed batch opens, at a budget that stays; 180 by default.
    pub reopen_after_steps: u64,
    /// Growths that were undone though the budget was the same, after which there is no way up until a thousand steps
    /// have taken one off; 20 by default.
    pub max_reversals: u32,
}

impl Default for BucketedConfig {
    fn default() -> Self {
        Self {
            cells: Cells::default(),
            batch_max: 64,
            start: None,
            raise_below: 0.985,
            noise: 0.0,
            warm_up_steps: 2,
            cooldown_steps: 1,
            min_gain: 0.02,
            reopen_after_steps: 180,
            max_reversals: 20,
        }
    }
}

impl BucketedConfig {
    /// Checks every key.
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        let Self { cells, start, .. } = self;
        if cells.is_empty() || !cells.is_ordered() {
            let allowed = "edges that grow from 1, or cells of as many axes, none before one that it covers, the last of which covers all";
            return Err(PolicyError::out_of_range("edges", format!("[{cells}]"), allowed));
        }
        check_range("batch_max", &self.batch_max, &(1..=LARGEST))?;
        let fits = |start: &Vec<u32>| {
            start.len() == cells.len()
                && super::falling(cells, start.clone()) == *start
                && start.iter().all(|batch| (1..=self.batch_max).contains(batch))
        };
        if let Some(start) = start.as_ref().filter(|start| !fits(start)) {
            let allowed = format!(
                "{} sizes from 1 to {}, none above that of a cell that its own covers",
                cells.len(),
                self.batch_max
            );
            return Err(PolicyError::out_of_range("start", format!("{start:?}"), allowed));
        }
        check_range("raise_below", &self.raise_below, &(0.5..=super::LOWER_ABOVE))?;
        check_range("noise", &self.noise, &(0.0..=0.25))?;
        check_range("min_gain", &self.min_gain, &(0.0..=1.0))?;
        check_range("reopen_after_steps", &self.reopen_after_steps, &(1..=1_000_000_000))?;
        check_range("max_reversals", &self.max_reversals, &(1..=1_000_000))
    }
}
