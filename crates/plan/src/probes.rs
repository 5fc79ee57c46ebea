//! Planning by few real steps, on a device whose allocator keeps no pools.

use std::time::Instant;

use plimsoll_predict::{Approach, Explorer, Key, PartReading, Phase, Predictor, PredictorConfig, Probe, Reach, Source};
use plimsoll_types::{Bytes, Prediction, StepShape};

use crate::{Fit, PlanError, PlannedCell};

/// Runs a real step of a shape, in the steady state, and reads its peak.
pub type Measure<'a> = &'a mut dyn FnMut(StepShape) -> Result<PartReading, PlanError>;

/// A bound this close to the estimate leaves nothing to learn: 1 % of it is the margin for rounding.
const TIGHT: f64 = 1.02;

/// Plans cells by certified probes.
///
/// The smallest batch at the longest edge is approached from below, in steps that are certain to fit by those before
/// them; where it is out of reach, so are the longer edges. Then runs, each time, the cell with the most to gain among
/// those whose upper bound fits; and with the trials that are left, the one with the loosest bound.
/// Every other cell gets the certificate's bound.
#[derive(Clone, Debug)]
pub struct ProbePlanner {
    /// How needs are bounded.
    pub predictor: PredictorConfig,
    /// The edge that the way up to the longest begins with; see [`Approach::SHORTEST`].
    pub shortest: u32,
    /// What edges on this way grow by multiples of.
    pub multiple: u32,
    /// What a step may use.
    pub budget: Bytes,
    /// Most real steps for cells that are certain to fit.
    ///
    /// The way up to the longest edge counts, but is not cut short, since without it no cell of that edge is certain to
    /// fit: it takes 7 steps where needs grow with the edge, and never more than 24 ([`Approach`]); one more may follow.
    pub max_trials: u32,
}

impl ProbePlanner {
    /// Plans every shape; `key` names the kernels that a shape runs.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoCell`] without a shape, [`PlanError::Predict`] when a reading makes no sense, and the errors of
    /// `measure`.
    pub fn plan(
        &self,
        phase: Phase,
        shapes: &[StepShape],
        key: &dyn Fn(StepShape) -> Key,
        measure: Measure<'_>,
    ) -> Result<Vec<PlannedCell>, PlanError> {
        if shapes.is_empty() {
            return Err(PlanError::NoCell);
        }
        let mut known = Known::try_new(self.predictor, key)?;
        self.approach(smallest_of_longest(shapes), &mut known, &mut *measure)?;
        let fits = |it: &&StepShape| known.predict(**it).is_some_and(|it| it.upper <= self.budget);
        let within_reach: Vec<_> = shapes.iter().filter(fits).map(|it| it.extent()).collect();
        let cells = shapes.iter().copied().filter(|it| within_reach.contains(&it.extent()));
        let left = self.max_trials.saturating_sub(known.n_trials()).max(1);
        if !within_reach.is_empty() {
            let mut explorer = Explorer::try_new(cells, self.budget, left)?;
            while let Probe::Measure(shape) = explorer.probe(|it| known.predict(it)) {
                known.learn(shape, &mut *measure)?;
                explorer.on_trial_done(shape, |it| known.predict(it));
            }
        }
        while let Some(shape) = self.loosest(shapes, &known) {
            known.learn(shape, &mut *measure)?;
        }
        let cell = |shape: &StepShape| {
            let start = Instant::now();
            let prediction = known.predict(*shape).ok_or(PlanError::NoCell)?;
            let trial = known.trials.iter().find(|(it, _)| it.shape == *shape);
            let (source, (nodes, packed), planning_ms) = match trial {
                Some((part, milliseconds)) => (Source::Memo, (part.nodes, part.packed), *milliseconds),
                None => (Source::Certificate, (0, Bytes::ZERO), milliseconds(start)),
            };
            Ok(PlannedCell {
                resident: known.resident,
                nodes,
                packed,
                ..self.cell(phase, *shape, prediction, source, planning_ms)
            })
        };
        shapes.iter().map(cell).collect()
    }

    /// Runs trials up to a shape, or as far as they are certain to fit.
    fn approach(&self, target: StepShape, known: &mut Known<'_>, measure: Measure<'_>) -> Result<Reach, PlanError> {
        let mut approach = Approach::new(self.shortest, target, self.budget).in_multiples_of(self.multiple);
        loop {
            match approach.next(|it| known.predict(it)) {
                Reach::Measure(shape) => {
                    known.learn(shape, &mut *measure)?;
                    approach.on_trial_done(shape);
                }
                reach => return Ok(reach),
            }
        }
    }

    /// Returns the shape with the loosest bound among those that are certified and not measured, while trials are left.
    fn loosest(&self, shapes: &[StepShape], known: &Known<'_>) -> Option<StepShape> {
        if self.max_trials as usize <= known.trials.len() {
            return None;
        }
        let looseness = |shape: &StepShape| {
            let it = known.predict(*shape).filter(|it| it.upper <= self.budget)?;
            let is_tried = known.trials.iter().any(|(tried, _)| tried.shape == *shape);
            let looseness =
                it.upper.saturating_sub(known.resident).share_of(it.expected.saturating_sub(known.resident));
            (!is_tried && TIGHT < looseness).then_some((*shape, looseness))
        };
        shapes.iter().filter_map(looseness).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(shape, _)| shape)
    }

    fn cell(&self, phase: Phase, shape: StepShape, it: Prediction, source: Source, planning_ms: f64) -> PlannedCell {
        PlannedCell {
            phase,
            batch: shape.samples,
            extent: shape.extent(),
            resident: Bytes::ZERO,
            nodes: 0,
            packed: Bytes::ZERO,
            reserved: it.expected,
            upper: it.upper,
            in_run: None,
            in_use: Some(it.expected),
            upper_in_use: Some(it.upper),
            page: Bytes::ZERO,
            largest_allocation: Bytes::ZERO,
            source,
            fit: if it.upper <= self.budget { Fit::Fits } else { Fit::OverBudget },
            planning_ms,
        }
    }
}

/// What the trials so far tell.
struct Known<'a> {
    predictor: Predictor,
    key: &'a dyn Fn(StepShape) -> Key,
    resident: Bytes,
    /// Each with its wall time in milliseconds.
    trials: Vec<(PartReading, f64)>,
}

impl<'a> Known<'a> {
    fn try_new(predictor: PredictorConfig, key: &'a dyn Fn(StepShape) -> Key) -> Result<Self, PlanError> {
        Ok(Self { predictor: Predictor::try_new(predictor)?, key, resident: Bytes::ZERO, trials: Vec::new() })
    }

    fn n_trials(&self) -> u32 {
        u32::try_from(self.trials.len()).unwrap_or(u32::MAX)
    }

    fn predict(&self, shape: StepShape) -> Option<Prediction> {
        self.predictor.predict((self.key)(shape), shape, self.resident)
    }

    fn learn(&mut self, shape: StepShape, measure: Measure<'_>) -> Result<(), PlanError> {
        self.predictor.forget_answers();
        let start = Instant::now();
        let part = measure(shape)?;
        self.trials.push((part, milliseconds(start)));
        // A part of a step finds the gradients of those before it: the most that any has found is there in the worst case.
        self.resident = self.resident.max(part.before);
        self.predictor.observe((self.key)(shape), part)?;
        Ok(())
    }
}

/// Returns the smallest batch of the largest extent.
fn smallest_of_longest(shapes: &[StepShape]) -> StepShape {
    let key = |it: &&StepShape| (it.extent().positions(), it.extent(), std::cmp::Reverse(it.samples));
    shapes.iter().max_by_key(key).copied().unwrap_or(StepShape::new(1, 1))
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use plimsoll_predict::Platform;
    use plimsoll_types::Observation;

    use super::*;

    #[test]
    fn few_trials_plan_every_cell_and_none_is_above_the_budget() {
        let planner = ProbePlanner {
            predictor: PredictorConfig::default(),
            shortest: Approach::SHORTEST,
            multiple: 1,
            budget: Bytes::mib(500),
            max_trials: 8,
        };
        let shapes: Vec<_> =
            [16, 32, 64].into_iter().flat_map(|edge| (1..=40).map(move |n| StepShape::new(n, edge))).collect();
        let key = |_| Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
        let need = |it: StepShape| Bytes(1_000_000 + 1200 * u64::from(it.samples * it.edge() * it.edge()));
        let resident = Bytes::mib(10);
        let mut tried = Vec::new();
        let mut measure = |shape| {
            tried.push(shape);
            Ok(Observation { shape, resident, peak: resident.saturating_add(need(shape)) }.into())
        };
        let cells = planner.plan(Phase::Train, &shapes, &key, &mut measure).unwrap();
        assert_eq!(tried[..2], [StepShape::new(1, 16), StepShape::new(1, 64)]);
        assert!(tried.len() <= 8 && tried.iter().all(|it| resident.saturating_add(need(*it)) <= planner.budget));
        assert_eq!(cells.len(), shapes.len());
        for cell in &cells {
            let real = resident.saturating_add(need(cell.shape()));
            assert!(real <= cell.upper, "{cell:?}");
            assert_eq!(cell.source == Source::Memo, tried.contains(&cell.shape()));
        }
        let largest =
            |edge| cells.iter().filter(|it| it.extent.edge() == edge && it.fit == Fit::Fits).map(|it| it.batch).max();
        assert_eq!(largest(16), Some(40));
        assert!(largest(64) >= Some(35), "the room is that of 104 samples: {:?}", largest(64));
    }

    #[test]
    fn a_step_of_one_part_tells_nothing_wrong_of_steps_that_accumulate_gradients() {
        const N_SAMPLES: u32 = 64;
        let (base, sum) = (Bytes::mib(10), Bytes::mib(16));
        let planner = ProbePlanner {
            predictor: PredictorConfig::default(),
            shortest: Approach::SHORTEST,
            multiple: 1,
            budget: Bytes::gib(1),
            max_trials: 4,
        };
        let shapes: Vec<_> = [1, 2, 4, 8, 16, 24, 32, 48, 64].map(|n| StepShape::new(n, 32)).to_vec();
        let key = |_| Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
        // Every part makes gradients of its own; a later one finds the sum of those before it besides.
        let need = |n: u32| sum.saturating_add(Bytes::mib(n.into()));
        let found = |shape: StepShape| if 2 * shape.samples <= N_SAMPLES { base.saturating_add(sum) } else { base };
        let peak = |shape| found(shape).saturating_add(need(shape.samples));
        let mut measure = |shape| Ok(Observation { shape, resident: found(shape), peak: peak(shape) }.into());
        for cell in planner.plan(Phase::Train, &shapes, &key, &mut measure).unwrap() {
            assert!(peak(cell.shape()) <= cell.upper, "{cell:?} needs {}", peak(cell.shape()));
        }
    }

    #[test]
    fn an_edge_that_is_out_of_reach_is_planned_without_having_run() {
        let budget = Bytes::mib(100);
        let planner = ProbePlanner {
            predictor: PredictorConfig::default(),
            shortest: Approach::SHORTEST,
            multiple: 1,
            budget,
            max_trials: 8,
        };
        let shapes: Vec<_> =
            [32, 64, 4096].into_iter().flat_map(|edge| (1..=4).map(move |n| StepShape::new(n, edge))).collect();
        let key = |_| Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
        let mut most = Bytes::ZERO;
        let mut measure = |shape: StepShape| {
            let peak = Bytes::kib(100 * u64::from(shape.samples * shape.edge()));
            most = most.max(peak);
            Ok(Observation { shape, resident: Bytes::ZERO, peak }.into())
        };
        let cells = planner.plan(Phase::Train, &shapes, &key, &mut measure).unwrap();
        assert!(most <= budget, "{most}");
        let fit =
            |edge| cells.iter().filter(|it| it.extent.edge() == edge && it.fit == Fit::Fits).map(|it| it.batch).max();
        assert_eq!([32, 64, 4096].map(fit), [Some(4), Some(4), None]);
    }
}
