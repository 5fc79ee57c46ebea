//! Which shape to measure next.

use plimsoll_types::{Bytes, Prediction, StepShape};
use serde::{Deserialize, Serialize};

use crate::PredictError;

/// Growth of a row's batch that counts as progress: a fraction of the batch that was certified before.
///
/// 0.02: less than the step between any two batches below 50, so that there it means *one more rung*.
const PROGRESS: f64 = 0.02;

/// Trials without progress, one after the other, that end the search.
///
/// 2: for 150 random programs on 16 rows the certified batches came to 98.7 % of the largest possible ones with 1, to
/// 99.0 % with 2 and to 99.1 % with 3, all with 4 trials in the median.
const PATIENCE: u32 = 2;

/// Chooses the trials that tell most about how large a batch of each edge may be, without leaving the budget.
///
/// Cells of one edge form a row.
/// The first trial is the smallest batch at the longest edge, which must be possible anyway.
/// Then each row offers the largest cell whose upper bound lies within the budget, unless it was tried, and the row
/// whose expected peaks allow the largest growth is chosen: `largest expected batch / largest certified batch`, where an
/// expected peak counts with the least ratio of upper bound to expected peak among the shapes that were tried, since no
/// trial removes that; among equals, the longest edge is.
/// It ends when no row can be expected to grow, after two trials in a row that let no certified batch grow by more than
/// 2 %, or when the trials are used up.
///
/// # Why these
///
/// A bound is tight near what was measured, so that the edge of the certified set teaches most.
/// For 150 random programs with 16 rows and up to 256 samples, this rule took 4 trials (median; 11 at most) and certified
/// 99.0 % of the largest batches that fit, on average, without one trial above the budget.
/// Choosing the certified cell with the largest `budget - lower bound` took 5 trials (13 at most) for 96.1 %, the cell
/// with the largest `upper bound - lower bound` took 6 (14 at most) for 97.7 %.
/// With one row this rule took 2 trials (3 at most) for 99.6 %, the rest being a rung that the 1 % of rounding costs.
///
/// # Example
///
/// ```
/// use plimsoll_predict::{Explorer, Key, Phase, Platform, Predictor, PredictorConfig, Probe, StopReason};
/// use plimsoll_types::{Bytes, Observation, StepShape};
///
/// let key = Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
/// let mut predictor = Predictor::try_new(PredictorConfig::default())?;
/// let cells = (1..=64).map(|samples| StepShape::new(samples, 32));
/// let mut explorer = Explorer::try_new(cells, Bytes::mib(1024), 4)?;
/// let reason = loop {
///     let probe = explorer.probe(|shape| predictor.predict(key, shape, Bytes::mib(50)));
///     let shape = match probe {
///         Probe::Measure(shape) => shape,
///         Probe::Stop(reason) => break reason,
///     };
///     let peak = Bytes::mib(100 + 20 * u64::from(shape.samples)); // Run a step and read its peak.
///     predictor.observe(key, Observation { shape, resident: Bytes::mib(50), peak })?;
///     explorer.on_trial_done(shape, |shape| predictor.predict(key, shape, Bytes::mib(50)));
/// };
/// assert_eq!((reason, explorer.n_trials()), (StopReason::Converged, 3));
/// let best = explorer.certified(|shape| predictor.predict(key, shape, Bytes::mib(50)));
/// assert_eq!(best, [StepShape::new(45, 32)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explorer {
    /// Sorted by edge, then by batch.
    rows: Vec<Vec<StepShape>>,
    budget: Bytes,
    max_trials: u32,
    tried: Vec<StepShape>,
    /// The largest certified batch of each row after the last trial, zero for none.
    certified: Vec<u32>,
    n_idle: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Run a step of this shape and observe its peak.
    Measure(StepShape),
    /// Stop searching.
    Stop(StopReason),
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// No trial is expected to let a row grow.
    Converged,
    /// All trials are used up.
    TrialCap,
    /// Not even the smallest batch lies within the budget: a shorter edge, checkpointing or a smaller model is needed.
    NothingFits,
}

impl Explorer {
    /// Starts without a trial, for these cells.
    ///
    /// # Errors
    ///
    /// [`PredictError::NoCell`] without a cell or a trial, [`PredictError::EmptyShape`] for a cell that holds nothing.
    pub fn try_new(
        cells: impl IntoIterator<Item = StepShape>,
        budget: Bytes,
        max_trials: u32,
    ) -> Result<Self, PredictError> {
        let mut cells: Vec<StepShape> = cells.into_iter().collect();
        cells.sort_unstable_by_key(|it| (it.extent(), it.samples));
        cells.dedup();
        if let Some(empty) = cells.iter().find(|it| it.is_empty()) {
            return Err(PredictError::EmptyShape(*empty));
        }
        if cells.is_empty() || max_trials == 0 {
            return Err(PredictError::NoCell(if cells.is_empty() { "n_cells" } else { "max_trials" }));
        }
        let rows: Vec<_> = cells.chunk_by(|a, b| a.extent() == b.extent()).map(<[_]>::to_vec).collect();
        Ok(Self { budget, max_trials, tried: Vec::new(), certified: vec![0; rows.len()], n_idle: 0, rows })
    }

    /// Returns the next trial, or why there is none, given what is predicted now.
    pub fn probe(&self, predict: impl Fn(StepShape) -> Option<Prediction>) -> Probe {
        let fits = |shape: &StepShape| predict(*shape).is_some_and(|it| it.upper <= self.budget);
        let first = self.first();
        let has_room = self.tried.len() < self.max_trials as usize;
        match self.candidate(&predict) {
            _ if !fits(&first) && !self.tried.contains(&first) => Probe::Measure(first),
            _ if !self.rows.iter().flatten().any(fits) => Probe::Stop(StopReason::NothingFits),
            Some(_) if self.n_idle >= PATIENCE => Probe::Stop(StopReason::Converged),
            Some(shape) if has_room => Probe::Measure(shape),
            Some(_) => Probe::Stop(StopReason::TrialCap),
            None => Probe::Stop(StopReason::Converged),
        }
    }

    /// Notes that a step of this shape was tried, and what is predicted now that its peak has been observed.
    pub fn on_trial_done(&mut self, shape: StepShape, predict: impl Fn(StepShape) -> Option<Prediction>) {
        self.tried.push(shape);
        let certified: Vec<u32> = self.rows.iter().map(|row| self.largest(row, &predict, upper)).collect();
        let has_grown = |(now, before): (&u32, &u32)| f64::from(*now) > (1.0 + PROGRESS) * f64::from(*before);
        self.n_idle = if certified.iter().zip(&self.certified).any(has_grown) { 0 } else { self.n_idle + 1 };
        self.certified = certified;
    }

    /// Returns the largest certified cell of each edge that has one, shortest edge first.
    pub fn certified(&self, predict: impl Fn(StepShape) -> Option<Prediction>) -> Vec<StepShape> {
        let best = |row: &Vec<StepShape>| row[0].with_samples(self.largest(row, &predict, upper));
        self.rows.iter().map(best).filter(|it| it.samples > 0).collect()
    }

    /// Returns how many trials were made.
    pub fn n_trials(&self) -> usize {
        self.tried.len()
    }

    fn first(&self) -> StepShape {
        self.rows[self.rows.len() - 1][0]
    }

    /// Returns the untried largest certified cell of the row that may grow most, if any may grow.
    fn candidate(&self, predict: &impl Fn(StepShape) -> Option<Prediction>) -> Option<StepShape> {
        let slack = self.least_slack(predict);
        let hoped = |it: Prediction| Bytes::from_f64_ceil(it.expected.as_f64() * slack);
        let offers = self.rows.iter().filter_map(|row| {
            let samples = self.largest(row, predict, upper);
            let growth = f64::from(self.largest(row, predict, hoped)) / f64::from(samples.max(1));
            let shape = row[0].with_samples(samples);
            (samples > 0 && growth > 1.0 + PROGRESS && !self.tried.contains(&shape)).then_some((growth, shape))
        });
        offers.max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
    }

    /// Returns the least ratio of upper bound to expected peak among the shapes that were tried: what no trial removes.
    fn least_slack(&self, predict: &impl Fn(StepShape) -> Option<Prediction>) -> f64 {
        let slack = |it: Prediction| it.upper.as_f64() / it.expected.as_f64().max(1.0);
        self.tried.iter().filter_map(|shape| predict(*shape)).map(slack).reduce(f64::min).unwrap_or(1.0)
    }

    /// Returns the largest batch of a row whose size, as told, is within the budget; zero for none.
    fn largest(
        &self,
        row: &[StepShape],
        predict: &impl Fn(StepShape) -> Option<Prediction>,
        size: impl Fn(Prediction) -> Bytes,
    ) -> u32 {
        let fits = |it: &&StepShape| predict(**it).is_some_and(|it| size(it) <= self.budget);
        row.iter().rev().find(fits).map_or(0, |it| it.samples)
    }
}

fn upper(it: Prediction) -> Bytes {
    it.upper
}
