//! The largest batch whose upper bound fits.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use super::correction::Correction;
use super::found::count;
use super::{FinderConfig, Plan, Planned, Source, Trial};
use crate::Predict;

/// How many sixteenths of a batch above the boundary are looked at as well.
///
/// What pages reserve dips where one page fewer is enough, because pages grow with the batch; by a third where three
/// are left. Neither a plan nor a bound costs a step.
const BEYOND: u32 = 6;

/// What was planned, by batch; `None` where a dry run failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plans(BTreeMap<u32, Option<Planned>>);

/// A batch with the upper bound of its peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Certified {
    pub(crate) batch: u32,
    pub(crate) upper: Bytes,
}

/// The upper bounds of all batches, after some trials.
pub(crate) struct Certify<'a> {
    config: &'a FinderConfig,
    budget: Bytes,
    /// The least that was resident before a trial: the noise is of what is above.
    resident: Bytes,
    largest_tried: u32,
    bound: Bound<'a>,
}

enum Bound<'a> {
    Planned { plan: Plan<'a>, plans: &'a mut Plans, correction: Correction },
    Probed(Predict<'a>),
}

impl Plans {
    /// Returns the plan of a shape, asking for it the first time.
    pub(crate) fn ask(&mut self, shape: StepShape, plan: Plan<'_>) -> Option<Planned> {
        *self.0.entry(shape.samples).or_insert_with(|| plan(shape))
    }

    pub(crate) fn count(&self) -> u32 {
        count(self.0.len())
    }
}

impl<'a> Certify<'a> {
    pub(crate) fn new(
        config: &'a FinderConfig,
        budget: Bytes,
        trials: &[Trial],
        plans: &'a mut Plans,
        source: Source<'a>,
    ) -> Self {
        let resident = trials.iter().map(|it| it.resident).min().unwrap_or_default();
        let largest_tried = trials.iter().map(|it| it.batch).max().unwrap_or(config.batch_min);
        let bound = match source {
            Source::Probe(predict) => Bound::Probed(predict),
            Source::Plan(plan) => {
                let planned = |it: &Trial| Some((plans.ask(config.shape(it.batch), plan)?, *it));
                let measured: Vec<_> = trials.iter().filter_map(planned).collect();
                let correction = Correction::new(&measured, config.noise, config.max_held_pages);
                Bound::Planned { plan, plans, correction }
            }
        };
        Self { config, budget, resident, largest_tried, bound }
    }

    /// Returns the largest batch whose upper bound is within the budget, as far as halving the range finds it.
    pub(crate) fn largest(mut self) -> Option<Certified> {
        let lowest = self.lowest();
        let mut found = self.largest_from(lowest)?;
        while let Some(above) = self.beyond(found.batch) {
            found = self.largest_from(above).unwrap_or(found);
        }
        Some(found)
    }

    /// Returns where to begin: at the largest batch that ran, if it is certified.
    fn lowest(&mut self) -> u32 {
        let tried = self.largest_tried;
        self.certified(tried).map_or(self.config.batch_min, |it| it.batch)
    }

    /// Returns the highest batch from `low` on that fits, taking the bound to grow with the batch.
    ///
    /// Where it does not, a lower batch may be found, but never one whose bound does not fit.
    fn largest_from(&mut self, low: u32) -> Option<Certified> {
        let (mut low, mut high, mut found) = (low, self.config.batch_max + 1, None);
        while low < high {
            let middle = u32::midpoint(low, high);
            match self.certified(middle) {
                Some(certified) => (low, found) = (middle + 1, Some(certified)),
                None => high = middle,
            }
        }
        found
    }

    /// Returns a batch that fits some way above one next to which nothing does.
    fn beyond(&mut self, batch: u32) -> Option<u32> {
        let sixteenth = batch.div_ceil(16);
        let above = (1..=BEYOND).map(|it| batch + 1 + sixteenth * it).filter(|it| *it <= self.config.batch_max);
        above.rev().find(|it| self.certified(*it).is_some())
    }

    fn certified(&mut self, batch: u32) -> Option<Certified> {
        let upper = self.upper(self.config.shape(batch)).filter(|it| *it <= self.budget)?;
        Some(Certified { batch, upper })
    }

    fn upper(&mut self, shape: StepShape) -> Option<Bytes> {
        let noise = self.config.noise.get();
        let (upper, factor) = match &mut self.bound {
            Bound::Planned { plan, plans, correction } => (correction.upper(plans.ask(shape, *plan)?), 1.0 + noise),
            // The peaks behind the bound may have been read low, and the next one may be high.
            Bound::Probed(predict) => (predict(shape)?.upper, (1.0 + noise) / (1.0 - noise)),
        };
        let need = upper.saturating_sub(self.resident).as_f64() * factor;
        Some(self.resident.saturating_add(Bytes::from_f64_ceil(need)))
    }
}
