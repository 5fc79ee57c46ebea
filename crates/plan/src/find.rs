//! The batch size that suits a device.

mod by_plan;
mod by_probes;

use std::time::Instant;

use burn::tensor::Tensor;
use plimsoll_finder::{Finder, FinderConfig, FinderError, Found, Outcome, Race, Winner};
use plimsoll_predict::{KEPT_SHARE, Keys, Phase, PredictError, PredictorConfig};
use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_types::{Attempt, Bytes, StepShape};

use self::by_probes::by_probes;
use crate::trials::forward_trial;
use crate::{NSamples, PlanError, Program, RealSteps, Trial, TrialError};

/// What is searched for, and where.
pub struct Finding<'a> {
    /// The device.
    pub device: DeviceKind,
    /// What it has.
    pub capacity: Bytes,
    /// What names the kernels that a shape runs, where bounds follow from real steps.
    pub keys: Keys,
    /// Bounds, where they follow from real steps.
    pub predictor: PredictorConfig,
    /// Whether the device tells exact peaks, and not merely what its pages hold.
    pub exact_peaks: bool,
    /// The extent, the limits of the batch, and the part of the capacity that may be used.
    pub finder: FinderConfig,
    /// Training steps, or forward passes without gradients.
    pub phase: Phase,
    /// The samples of an optimizer step.
    pub n_samples: NSamples<'a>,
    /// What a step of a shape has in use for its samples, beside what is in use whatever the shape.
    pub host: &'a dyn Fn(StepShape) -> Bytes,
    /// What makes a batch the best.
    pub objective: Objective,
}

/// What makes a batch the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The largest that fits.
    #[default]
    Largest,
    /// The one with the most samples per second, of at most 6 that fit, each timed in at most 5 steps.
    Throughput,
}

/// A real step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Its shape.
    pub shape: StepShape,
    /// What it showed.
    pub outcome: Outcome,
    /// The size of the pages in which that was reserved, or zero where peaks are exact.
    pub page: Bytes,
    /// The nodes of its graph, or zero where that is small.
    pub nodes: u64,
    /// The most that a product of matrices has packed until then, with what threads take beside the first; zero where that does
    /// not count in peaks.
    pub packed: Bytes,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundBatch {
    /// The search, with its figures.
    pub found: Found,
    /// The fastest batch, where that was asked for.
    pub winner: Option<Winner>,
    /// Dry runs made.
    pub n_plans: usize,
    /// Real steps that were made once more, because the first of them made what stays for good.
    pub n_repeated: u32,
    /// What was timed, where the fastest was asked for.
    pub timed: Timed,
    /// The device that decides, where a model lies on several.
    pub tightest: Option<String>,
}

/// Steps that were timed, after the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How many there were.
    pub n_steps: u32,
    /// How many of them ran out of memory.
    pub n_out_of_memory: u32,
    /// Their high-water mark.
    pub peak: Bytes,
}

impl FoundBatch {
    /// Returns the batch to use.
    pub fn batch(&self) -> u32 {
        self.winner.map_or(self.found.batch, |it| it.batch)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The search.
    #[error(transparent)]
    Finder(#[from] FinderError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A real step.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A reading makes no sense.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

/// Told of each real step.
pub type OnTried<'a> = &'a mut dyn FnMut(&Tried);

impl Finding<'_> {
    /// Finds the batch size of a program.
    ///
    /// On a device with pools a dry run of `program` says what any batch reserves, and 3 real steps confirm it, or up to
    /// [`FinderConfig::max_trials`] where one of them fails; on others as many real steps, which are bounded by those before
    /// them but for the first. `on_tried` is told of each.
    ///
    /// # Errors
    ///
    /// [`FindError::Finder`] when the smallest batch does not fit, with what it needs and what there is.
    pub fn run<P: Program>(
        &self,
        program: &P,
        steps: &mut dyn RealSteps,
        on_tried: OnTried<'_>,
    ) -> Result<FoundBatch, FindError> {
        let finder = Finder::try_new(self.finder.clone(), self.capacity)?;
        let mut search = BatchSearch { finding: self, finder, steps, on_tried, n_repeated: 0, timed: Timed::default() };
        let (found, n_plans) = match self.device {
            DeviceKind::Flex => (search.by_probes()?, 0),
            DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => search.by_plan(program)?,
        };
        let winner = match self.objective {
            Objective::Largest => None,
            Objective::Throughput => search.race(found.batch)?,
        };
        let (n_repeated, timed, tightest) = (search.n_repeated, search.timed, None);
        Ok(FoundBatch { found, winner, n_plans, n_repeated, timed, tightest })
    }

    /// Finds the largest batch of work without gradients that fits, such as generation, by real runs of it.
    ///
    /// Each run is bounded by those before it, but for the first.
    ///
    /// # Errors
    ///
    /// [`FindError::Finder`] when the smallest batch does not fit, with what it needs and what there is.
    pub fn run_forward(
        &self,
        probe: &mut dyn Probe,
        forward: &dyn Fn(StepShape) -> Tensor<1>,
        on_tried: OnTried<'_>,
    ) -> Result<Found, FindError> {
        let mut finder = Finder::try_new(self.finder.clone(), self.capacity)?;
        by_probes(self, &mut finder, &mut |shape| {
            tried(shape, on_tried, || forward_trial(probe, self.capacity, shape, || forward(shape)))
        })
    }
}

/// Whether a step left so little behind that the next one of its shape reads the same.
fn is_settled(it: &Trial) -> bool {
    let kept = it.in_use.saturating_sub(it.resident);
    kept.saturating_mul(KEPT_SHARE) <= it.peak.saturating_sub(it.resident)
}

/// Runs a step, and tells what it showed.
///
/// A step above the capacity that was measured as a whole shows as much as one that fits. So does not one that was found
/// not to fit in parts, or that was refused memory.
fn tried(
    shape: StepShape,
    on_tried: OnTried<'_>,
    step: impl FnOnce() -> Result<Trial, TrialError>,
) -> Result<Tried, TrialError> {
    let start = Instant::now();
    let (outcome, page, nodes, packed) = match step().map(Trial::steady) {
        Ok(Trial { resident, peak, part, .. }) => {
            (Outcome::Measured { resident, peak }, part.peak.page(), part.nodes, part.packed)
        }
        Err(TrialError::OutOfMemory(Attempt { shape: whole, resident, peak: Some(peak), page, nodes, .. }))
            if whole == shape && Bytes::ZERO < resident && resident < peak =>
        {
            (Outcome::Measured { resident, peak }, page, nodes, Bytes::ZERO)
        }
        Err(TrialError::OutOfMemory(_)) => (Outcome::OutOfMemory, Bytes::ZERO, 0, Bytes::ZERO),
        Err(error) => return Err(error),
    };
    let tried = Tried { shape, outcome, page, nodes, packed, seconds: start.elapsed().as_secs_f64() };
    on_tried(&tried);
    Ok(tried)
}

struct BatchSearch<'a> {
    finding: &'a Finding<'a>,
    finder: Finder,
    steps: &'a mut dyn RealSteps,
    on_tried: OnTried<'a>,
    n_repeated: u32,
    timed: Timed,
}

impl BatchSearch<'_> {
    /// Times the batches below the largest.
    fn race(&mut self, largest: u32) -> Result<Option<Winner>, FindError> {
        let mut race = Race::below(largest, self.finding.finder.batch_min)?;
        while let Some(batch) = race.turn() {
            let tried = self.real(StepShape::of(batch, self.finding.finder.extent))?;
            self.timed.n_steps += 1;
            match tried.outcome {
                Outcome::Measured { peak, .. } => {
                    self.timed.peak = self.timed.peak.max(peak);
                    race.on_step(batch, tried.seconds)?;
                }
                Outcome::OutOfMemory => {
                    self.timed.n_out_of_memory += 1;
                    race.on_failure(batch)?;
                }
            }
        }
        Ok(race.winner())
    }

    fn real(&mut self, shape: StepShape) -> Result<Tried, TrialError> {
        let n_samples = (self.finding.n_samples)(shape);
        tried(shape, self.on_tried, || self.steps.run(self.finding.phase, shape, n_samples))
    }
}
