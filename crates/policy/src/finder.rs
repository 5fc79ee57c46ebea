//! The largest batch that fits, found in a few real steps of which none runs out of memory.
//!
//! A [`Finder`] is asked what to do next and told how each trial went; it knows no device.
//! A [`Race`] then finds the fastest of the batches that fit, because a smaller one can be faster.
//!
//! # Signals
//!
//! * A trial: one real step of some batch, with what was resident before it and its peak.
//! * The upper bound of the need of any batch, from the trials so far ([`Source::Probe`]); or what a dry run of any
//!   batch reserves ([`Source::Plan`]), which costs no real step.
//!
//! # Why these
//!
//! A search that only learns whether a batch fits has to fail to learn where the limit is.
//! A bound leads to the limit from below: each trial is the largest batch whose bound fits, and its peak tightens the
//! bound.
//! Where a batch of `B` needs `c + b·B` above what is resident, and the bound is proportional to the batch, each trial
//! multiplies `1 / share - 1` by `c / (budget - resident)`, `share` being that of the best batch.
//! So four trials from a batch of 1 are enough for 0.95 of a best batch of 1000 while `c` is within 8 % of the room.
//!
//! # Trip conditions
//!
//! | condition | answer |
//! |---|---|
//! | no trial yet | try the smallest batch |
//! | a certified batch is above all that were tried, and trials are left | try the largest such |
//! | otherwise | the largest certified batch, less [`FinderConfig::batch_reduction`] |
//! | out of memory, although the bound fitted | the largest batch that ran, less the reduction: the bounds are wrong |
//! | the smallest batch does not fit | an error with what is needed and what there is |

mod certify;
mod config;
mod correction;
mod found;
mod race;
#[cfg(test)]
mod tests;

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use self::certify::{Certified, Certify, Plans};
pub use self::config::FinderConfig;
pub use self::correction::Planned;
pub use self::found::{Found, Stop};
pub use self::race::{Race, Winner};
use crate::error::check_range;
use crate::{PolicyError, Predict};

/// A dry run of a shape, or `None` where it failed: a step of this shape never fits.
pub type Plan<'a> = &'a dyn Fn(StepShape) -> Option<Planned>;

/// What is known of batches that were not tried.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A dry run says what any batch reserves; each batch is asked for once.
    Plan(Plan<'a>),
    /// A bound follows from the trials so far.
    Probe(Predict<'a>),
}

/// How a trial went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The step ran.
    Fitted {
        /// Bytes in use before the step.
        resident: Bytes,
        /// Bytes at its high-water mark, `resident` included.
        peak: Bytes,
    },
    /// The step ran out of memory.
    OutOfMemory,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum Search {
    /// Run a step of this batch.
    Try {
        /// Samples in the step.
        batch: u32,
        /// Upper bound of its peak; `None` for the first step of all, of which nothing is known.
        upper: Option<Bytes>,
    },
    /// The search is over.
    Found(Found),
}

/// A trial that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) batch: u32,
    pub(crate) resident: Bytes,
    pub(crate) peak: Bytes,
}

/// Finds the largest batch of one edge that fits.
///
/// # Example
///
/// ```
/// use plimsoll_policy::{Finder, FinderConfig, Outcome, Search, Source};
/// use plimsoll_types::{Bytes, Prediction, StepShape};
///
/// // A model of 100 MiB whose step needs 20 MiB, and 4 MiB for each sample; 900 of 1000 MiB may be used.
/// let need = |batch: u32| 20 + 4 * u64::from(batch);
/// let mut finder = Finder::try_new(FinderConfig::default(), Bytes::mib(1000))?;
/// let mut tried = None;
/// let found = loop {
///     // A larger batch needs at most proportionally more than the one that was tried.
///     let bound = |shape: StepShape| {
///         tried.map(|batch: u32| {
///             let upper = Bytes::mib(101 + need(batch) * u64::from(shape.samples) / u64::from(batch));
///             Prediction { expected: upper, upper }
///         })
///     };
///     match finder.search(Source::Probe(&bound))? {
///         Search::Try { batch, .. } => {
///             let (resident, peak) = (Bytes::mib(100), Bytes::mib(100 + need(batch)));
///             finder.on_trial(batch, Outcome::Fitted { resident, peak })?;
///             tried = Some(batch);
///         }
///         Search::Found(found) => break found,
///     }
/// };
/// assert_eq!((found.largest, found.batch, found.n_trials), (194, 184, 4));
/// # Ok::<(), plimsoll_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finder {
    config: FinderConfig,
    capacity: Bytes,
    /// Trials that ran, in their order.
    trials: Vec<Trial>,
    /// Batches that ran out of memory.
    failed: Vec<u32>,
    plans: Plans,
}

impl Finder {
    /// Starts without a trial on a device that has `capacity`.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: FinderConfig, capacity: Bytes) -> Result<Self, PolicyError> {
        config.validate()?;
        if capacity == Bytes::ZERO {
            return Err(PolicyError::out_of_range("capacity", capacity, "any size above 0 B"));
        }
        Ok(Self { config, capacity, trials: Vec::new(), failed: Vec::new(), plans: Plans::default() })
    }

    /// Learns how a trial of `batch` went.
    ///
    /// A trial is a step in the steady state, so that the optimizer's state is resident before it.
    ///
    /// # Errors
    ///
    /// [`PolicyError::OutOfRange`] for a batch outside the bounds, and for a peak that is not above what was resident,
    /// since no step needs nothing; nothing is learnt then.
    pub fn on_trial(&mut self, batch: u32, outcome: Outcome) -> Result<(), PolicyError> {
        check_range("batch", &batch, &(self.config.batch_min..=self.config.batch_max))?;
        match outcome {
            Outcome::OutOfMemory => self.failed.push(batch),
            Outcome::Fitted { resident, peak } if resident < peak => self.trials.push(Trial { batch, resident, peak }),
            Outcome::Fitted { resident, peak } => {
                return Err(PolicyError::out_of_range("peak", peak, format!("any size above the resident {resident}")));
            }
        }
        Ok(())
    }

    /// Returns what to do next: a batch to try, or the answer.
    ///
    /// # Errors
    ///
    /// [`PolicyError::DoesNotFit`] when the smallest batch needs more than may be used, [`PolicyError::NoPlan`] when it
    /// cannot even be planned.
    pub fn search(&mut self, source: Source<'_>) -> Result<Search, PolicyError> {
        if self.trials.is_empty() && self.failed.is_empty() {
            return self.first(source);
        }
        self.check_smallest()?;
        if let Some(failed) = self.failed.iter().min() {
            return Ok(Search::Found(self.found(self.largest_that_ran(*failed), Stop::OutOfMemory)));
        }
        let Some(certified) = self.certify(source).largest() else {
            return Ok(Search::Found(self.found(self.largest_that_ran(u32::MAX), Stop::NothingCertified)));
        };
        Ok(match self.stop(certified.batch, source) {
            Some(stop) => Search::Found(self.found(certified, stop)),
            None => Search::Try { batch: certified.batch, upper: Some(certified.upper) },
        })
    }

    /// Returns what a step may use.
    pub fn budget(&self) -> Bytes {
        self.capacity.scale(self.config.target)
    }

    fn first(&mut self, source: Source<'_>) -> Result<Search, PolicyError> {
        let batch = self.config.batch_min;
        let Source::Plan(plan) = source else {
            return Ok(Search::Try { batch, upper: None });
        };
        let shape = self.config.shape(batch);
        let planned = self.plans.ask(shape, plan).ok_or(PolicyError::NoPlan { shape })?;
        self.check_fits(planned.reserved)?;
        Ok(Search::Try { batch, upper: Some(planned.reserved) })
    }

    /// Refuses a device on which the smallest batch ran out of memory, or needed more than the budget.
    fn check_smallest(&self) -> Result<(), PolicyError> {
        let smallest = self.config.batch_min;
        if self.failed.contains(&smallest) {
            // The failure tells no more than that there was too little.
            self.check_fits(self.capacity.saturating_add(Bytes(1)))?;
        }
        self.trials.iter().filter(|it| it.batch == smallest).try_for_each(|it| self.check_fits(it.peak))
    }

    fn check_fits(&self, needed: Bytes) -> Result<(), PolicyError> {
        let (shape, available) = (self.config.shape(self.config.batch_min), self.budget());
        if needed <= available { Ok(()) } else { Err(PolicyError::DoesNotFit { shape, needed, available }) }
    }

    fn certify<'a>(&'a mut self, source: Source<'a>) -> Certify<'a> {
        let budget = self.budget();
        Certify::new(&self.config, budget, &self.trials, &mut self.plans, source)
    }

    fn stop(&self, certified: u32, source: Source<'_>) -> Option<Stop> {
        let most = match source {
            Source::Plan(_) => self.config.max_trials.min(correction::MAX_TRIALS),
            Source::Probe(_) => self.config.max_trials,
        };
        if self.trials.iter().any(|it| certified <= it.batch) {
            return Some(Stop::NothingToGain);
        }
        (most as usize <= self.trials.len()).then_some(Stop::TrialsUsed)
    }

    fn largest_that_ran(&self, below: u32) -> Certified {
        let ran = self.trials.iter().filter(|it| it.batch < below && it.peak <= self.budget());
        let largest = ran.max_by_key(|it| it.batch).map(|it| Certified { batch: it.batch, upper: it.peak });
        largest.unwrap_or(Certified { batch: self.config.batch_min, upper: self.budget() })
    }

    fn found(&self, largest: Certified, stop: Stop) -> Found {
        let found = Found::new(largest, &self.trials, stop);
        let (n_out_of_memory, n_plans) = (found::count(self.failed.len()), self.plans.count());
        let n_trials = found.n_trials.saturating_add(n_out_of_memory);
        Found {
            batch: self.config.reduced(largest.batch),
            budget: self.budget(),
            n_trials,
            n_out_of_memory,
            n_plans,
            ..found
        }
    }
}
