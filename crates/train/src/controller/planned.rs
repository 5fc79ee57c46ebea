//! What a plan says, and what reality says of the plan.

use std::collections::BTreeMap;

use plimsoll_plan::PlannedNeed;
use plimsoll_predict::{Phase, PredictError, Reserved, ReservedObservation};
use plimsoll_types::{Bytes, Observation, Prediction, StepShape};
use serde::{Deserialize, Serialize};

/// The plans of both phases.
///
/// A reading within its plan teaches nothing: the plan is exact, and a margin on a reading would only loosen it.
/// One above its plan shows that the plan is wrong, and widens all of the phase at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    training: Reserved,
    inference: Reserved,
    /// The largest allocation of any planned step.
    largest: Bytes,
}

impl Planned {
    pub(super) fn try_new(needs: &[PlannedNeed]) -> Result<Self, PredictError> {
        let (mut planned, mut margins) = (Self::default(), BTreeMap::<Phase, Bytes>::new());
        for need in needs.iter().filter(|it| it.resident.is_none()) {
            let reserved = planned.of_mut(need.phase);
            reserved.plan(need.shape, need.expected)?;
            let margin = margins.entry(need.phase).or_default();
            *margin = need.upper.saturating_sub(need.expected).max(*margin);
            reserved.correct(*margin);
            planned.largest = planned.largest.max(need.largest);
        }
        Ok(planned)
    }

    /// Whether the plan says anything of a shape.
    pub(super) fn covers(&self, phase: Phase, shape: StepShape) -> bool {
        self.of(phase).predict(shape).is_some()
    }

    pub(super) fn predict(&self, phase: Phase, shape: StepShape) -> Option<Prediction> {
        let it = self.of(phase).predict(shape)?;
        Some(Prediction { expected: it.expected, upper: it.upper })
    }

    /// Learns from a reading that the plan did not foresee.
    pub(super) fn observe(&mut self, phase: Phase, it: Observation) -> Result<(), PredictError> {
        if self.predict(phase, it.shape).is_some_and(|planned| it.peak <= planned.upper) {
            return Ok(());
        }
        let Observation { shape, resident, peak: reserved } = it;
        let largest = self.largest.max(Bytes(1));
        let observation = ReservedObservation { shape, reserved, resident, in_use: None, largest };
        self.of_mut(phase).observe(observation).map(drop)
    }

    fn of(&self, phase: Phase) -> &Reserved {
        match phase {
            Phase::Train => &self.training,
            Phase::Infer => &self.inference,
        }
    }

    fn of_mut(&mut self, phase: Phase) -> &mut Reserved {
        match phase {
            Phase::Train => &mut self.training,
            Phase::Infer => &mut self.inference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: StepShape = StepShape::new(8, 32);

    fn planned() -> Planned {
        let need = |n, mib| PlannedNeed {
            phase: Phase::Train,
            shape: StepShape::new(n, 32),
            expected: Bytes::mib(mib - 1),
            upper: Bytes::mib(mib),
            largest: Bytes::mib(1),
            resident: None,
        };
        Planned::try_new(&[need(8, 20), need(16, 40)]).unwrap()
    }

    fn read(planned: &mut Planned, peak: Bytes) {
        planned.observe(Phase::Train, Observation { shape: SHAPE, resident: Bytes::ZERO, peak }).unwrap();
    }

    #[test]
    fn a_reading_within_its_plan_changes_nothing() {
        let mut it = planned();
        read(&mut it, Bytes::mib(20));
        assert_eq!(it, planned());
        assert_eq!(it.predict(Phase::Train, StepShape::new(5, 32)).unwrap().upper, Bytes::mib(20), "the covering cell");
        assert!(!it.covers(Phase::Train, StepShape::new(17, 32)) && !it.covers(Phase::Infer, SHAPE));
    }

    #[test]
    fn a_reading_above_its_plan_widens_every_plan_of_the_phase() {
        let mut it = planned();
        read(&mut it, Bytes::mib(25));
        let upper = |n| it.predict(Phase::Train, StepShape::new(n, 32)).unwrap().upper;
        assert!(upper(8) >= Bytes::mib(25) && upper(16) >= Bytes::mib(50), "{} {}", upper(8), upper(16));
    }
}
