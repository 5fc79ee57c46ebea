//! Devices whose small batches run other kernels, and what is certain of them from trials.

use plimsoll_finder::{Finder, FinderConfig, FinderError, Found, Outcome, Search, Source};
use plimsoll_types::{Bytes, Prediction, StepShape};

/// What allocations may add to a bound by rounding, as `plimsoll-predict` has it.
const ROUNDING: f64 = 1.01;

/// What is assumed of a path of which nothing was seen, as `plimsoll-predict` has it.
const ASSUMED: f64 = 3.0;

/// A model whose step needs the most of some `constant + slope · batch`, in bytes, and nobody knows it.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) resident: u64,
    pub(crate) instants: Vec<(u64, u64)>,
    /// Batches up to this one run other kernels, as those of Flex do up to 4.
    pub(crate) small_batch: u32,
    /// By what those multiply the need.
    pub(crate) small: f64,
    pub(crate) capacity: Bytes,
    /// Whether a step above the capacity is measured all the same, and does not just fail.
    pub(crate) tells: bool,
}

/// A step that was run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    pub(crate) batch: u32,
    pub(crate) upper: Option<Bytes>,
    pub(crate) peak: Bytes,
}

impl Device {
    pub(crate) fn peak(&self, batch: u32) -> Bytes {
        let at = |(constant, slope): &(u64, u64)| constant + slope * u64::from(batch);
        let need = Bytes(self.instants.iter().map(at).max().unwrap_or_default());
        let factor = if batch <= self.small_batch { self.small } else { 1.0 };
        Bytes(self.resident).saturating_add(Bytes::from_f64_ceil(need.as_f64() * factor))
    }

    /// Returns the largest batch within the budget, or 0 for none.
    pub(crate) fn best(&self, config: &FinderConfig) -> u32 {
        let budget = self.capacity.scale(config.target);
        (config.batch_min..=config.batch_max).rev().find(|batch| self.peak(*batch) <= budget).unwrap_or(0)
    }

    /// Searches to the end, and returns the answer with all steps.
    pub(crate) fn search(&self, config: &FinderConfig) -> (Vec<Tried>, Result<Found, FinderError>) {
        let config = FinderConfig { small_batch: self.small_batch, ..config.clone() };
        let mut finder = Finder::try_new(config, self.capacity).unwrap();
        let mut tried: Vec<Tried> = Vec::new();
        loop {
            let bound = |shape: StepShape| {
                let upper = self.bound(&tried, shape.samples)?;
                Some(Prediction { expected: upper, upper })
            };
            match finder.search(Source::Probe(&bound)) {
                Ok(Search::Try { batch, upper }) => {
                    let peak = self.peak(batch);
                    tried.push(Tried { batch, upper, peak });
                    let measured = Outcome::Measured { resident: Bytes(self.resident), peak };
                    let outcome = if self.is_measured(peak) { measured } else { Outcome::OutOfMemory };
                    finder.on_trial(batch, outcome).unwrap();
                }
                Ok(Search::Found(found)) => return (tried, Ok(found)),
                Err(error) => return (tried, Err(error)),
            }
        }
    }

    fn is_measured(&self, peak: Bytes) -> bool {
        self.tells || peak <= self.capacity
    }

    /// Returns the most that a batch can need, given what others needed: the highest of all lines with neither a negative
    /// constant nor a negative slope that pass none of them.
    fn bound(&self, tried: &[Tried], batch: u32) -> Option<Bytes> {
        let measured = || tried.iter().filter(|it| self.is_measured(it.peak));
        let is_same_path = |it: &&Tried| (it.batch <= self.small_batch) == (batch <= self.small_batch);
        let is_known = measured().any(|it| is_same_path(&it));
        let from = measured().filter(|it| !is_known || is_same_path(it));
        let factor = if is_known { ROUNDING } else { ASSUMED * ROUNDING };
        let needs: Vec<_> = from.map(|it| (f64::from(it.batch), (it.peak.0 - self.resident) as f64)).collect();
        let need = Bytes::from_f64_ceil(highest(&needs, f64::from(batch))? * factor);
        Some(Bytes(self.resident).saturating_add(need))
    }
}

/// Solves the linear program by its corners.
fn highest(needs: &[(f64, f64)], batch: f64) -> Option<f64> {
    let flat = needs.iter().map(|it| it.1).reduce(f64::min)?;
    let proportional = needs.iter().map(|it| it.1 / it.0).reduce(f64::min)?;
    let through = |a: &(f64, f64), b: &(f64, f64)| {
        let slope = (b.1 - a.1) / (b.0 - a.0);
        Some((a.1 - slope * a.0, slope)).filter(|it| it.1.is_finite() && 0.0 <= it.0 && 0.0 <= it.1)
    };
    let crossings = needs.iter().flat_map(|a| needs.iter().filter_map(move |b| through(a, b)));
    let is_allowed = |line: &(f64, f64)| needs.iter().all(|it| line.0 + line.1 * it.0 <= it.1 * (1.0 + 1e-9));
    let corners = [(flat, 0.0), (0.0, proportional)].into_iter().chain(crossings).filter(is_allowed);
    corners.map(|line| line.0 + line.1 * batch).reduce(f64::max)
}
