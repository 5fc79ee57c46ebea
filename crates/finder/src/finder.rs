//! The search, one trial after the other.

use std::ops::RangeInclusive;

use plimsoll_types::{Bytes, Prediction, StepShape};
use serde::{Deserialize, Serialize};

use crate::error::check_range;
use crate::found::{Found, Limit, count, per_sample};
use crate::largest::Certified;
use crate::trials::{Trial, Trials};
use crate::{FinderConfig, FinderError};

/// What a step of some shape would need, or `None` while nothing is known, or where it never fits.
pub type Bound<'a> = &'a dyn Fn(StepShape) -> Option<Prediction>;

/// What is known of batches that were not tried.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A dry run says what any batch needs, corrected by what the trials so far showed of it.
    Plan(Bound<'a>),
    /// A bound follows from the trials so far: of a batch on a path of which none was tried, by an assumption.
    Probe(Bound<'a>),
}

/// How a trial went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The step was measured, also where its peak was above the capacity: so it ends on a device that is made to have
    /// less than it has.
    Measured {
        /// Bytes in use before the step.
        resident: Bytes,
        /// Bytes at its high-water mark, `resident` included.
        peak: Bytes,
    },
    /// The step ran out of memory before anyone could tell what it needs.
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
        /// Upper bound of its peak, for the first trial of a path by what is assumed of it, if anything; `None` where
        /// nothing is known.
        upper: Option<Bytes>,
    },
    /// The search is over.
    Found(Found),
}

/// Finds the largest batch of one extent that fits.
///
/// # Example
///
/// ```
/// use plimsoll_finder::{Finder, FinderConfig, Outcome, Search, Source};
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
///             finder.on_trial(batch, Outcome::Measured { resident, peak })?;
///             tried = Some(batch);
///         }
///         Search::Found(found) => break found,
///     }
/// };
/// assert_eq!((found.largest, found.batch, found.n_trials), (194, 184, 3));
/// # Ok::<(), plimsoll_finder::FinderError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finder {
    pub(crate) config: FinderConfig,
    pub(crate) capacity: Bytes,
    pub(crate) trials: Trials,
}

impl Finder {
    /// Starts without a trial on a device that has `capacity`.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] for the first key whose value is not allowed.
    pub fn try_new(config: FinderConfig, capacity: Bytes) -> Result<Self, FinderError> {
        config.validate()?;
        if capacity == Bytes::ZERO {
            return Err(FinderError::out_of_range("capacity", capacity, "any size above 0 B"));
        }
        Ok(Self { config, capacity, trials: Trials::default() })
    }

    /// Learns how a trial of `batch` went.
    ///
    /// A trial is a step in the steady state, so that the optimizer's state is resident before it.
    ///
    /// # Errors
    ///
    /// [`FinderError::OutOfRange`] for a batch outside the bounds, and for a peak that is not above what was resident,
    /// since no step needs nothing; nothing is learnt then.
    pub fn on_trial(&mut self, batch: u32, outcome: Outcome) -> Result<(), FinderError> {
        check_range("batch", &batch, &(self.config.batch_min..=self.config.batch_max))?;
        match outcome {
            Outcome::OutOfMemory => self.trials.failed.push(batch),
            Outcome::Measured { resident, peak } if resident < peak => {
                self.trials.ran.push(Trial { batch, resident, peak });
            }
            Outcome::Measured { resident, peak } => {
                return Err(FinderError::out_of_range("peak", peak, format!("any size above the resident {resident}")));
            }
        }
        Ok(())
    }

    /// Returns what to do next: a batch to try, or the answer.
    ///
    /// # Errors
    ///
    /// [`FinderError::DoesNotFit`] or [`FinderError::OutOfMemory`] when the smallest batch needs more than may be used,
    /// [`FinderError::NoPlan`] when it cannot even be planned.
    pub fn search(&self, source: Source<'_>) -> Result<Search, FinderError> {
        match source {
            Source::Plan(plan) => self.by_plan(plan),
            Source::Probe(bound) => self.by_probes(bound),
        }
    }

    /// Returns what the device has.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Returns what a step may use.
    pub fn budget(&self) -> Bytes {
        self.capacity.scale(self.config.target)
    }

    /// Says why there is no answer, when not even this batch fits.
    pub(crate) fn nothing_fits(&self, batch: u32) -> FinderError {
        let (shape, available) = (self.config.shape(batch), self.budget());
        match self.trials.of(batch) {
            Some(trial) => FinderError::DoesNotFit { shape, needed: trial.peak, is_measured: true, available },
            None => FinderError::OutOfMemory { shape, available },
        }
    }

    /// Refuses a device on which the smallest batch is planned to need more than the budget.
    pub(crate) fn check_fits(&self, batch: u32, needed: Bytes) -> Result<(), FinderError> {
        let (shape, available) = (self.config.shape(batch), self.budget());
        if needed <= available {
            return Ok(());
        }
        Err(FinderError::DoesNotFit { shape, needed, is_measured: false, available })
    }

    /// Returns what bounds the peak of a batch that was not tried.
    pub(crate) fn upper(&self, batch: u32, bound: Bound<'_>) -> Option<Bytes> {
        Some(bound(self.config.shape(batch))?.upper)
    }

    /// Whether one of some batches failed although its upper bound is within a limit.
    pub(crate) fn contradicts(&self, batches: &RangeInclusive<u32>, limit: Bytes, bound: Bound<'_>) -> bool {
        let mut failed = self.trials.failed.iter().filter(|it| batches.contains(it));
        failed.any(|batch| self.upper(*batch, bound).is_some_and(|it| it <= limit))
    }

    /// Whether a step that runs out of memory is a value here: it is said to be, or it was one.
    pub(crate) fn survives(&self) -> bool {
        self.config.survives || !self.trials.failed.is_empty()
    }

    /// Returns the batch to use: less than the largest that fits, unless the largest that is allowed leaves as much room.
    fn answer(&self, largest: Certified, limit: Limit) -> u32 {
        let spare = Bytes::from_f64_ceil(self.budget().as_f64() * self.config.batch_reduction.get());
        match limit {
            Limit::BatchMax if largest.upper.saturating_add(spare) <= self.budget() => largest.batch,
            _ => self.config.reduced(largest.batch),
        }
    }

    pub(crate) fn found(&self, largest: Certified, limit: Limit) -> Search {
        let Trials { ran, failed } = &self.trials;
        let above = ran.iter().filter(|it| self.capacity < it.peak).count();
        let is_small = |batch: u32| batch <= self.config.small_batch;
        Search::Found(Found {
            batch: self.answer(largest, limit),
            largest: largest.batch,
            upper: largest.upper,
            is_measured: self.trials.of(largest.batch).is_some(),
            budget: self.budget(),
            start: ran.first().map(|it| it.resident).unwrap_or_default(),
            peak: ran.iter().map(|it| it.peak).max().unwrap_or_default(),
            current: ran.last().map(|it| it.resident).unwrap_or_default(),
            per_sample: per_sample(&self.trials, |batch| is_small(batch) == is_small(largest.batch)),
            n_trials: count(self.trials.len()),
            n_out_of_memory: count(failed.len() + above),
            limit,
        })
    }
}
