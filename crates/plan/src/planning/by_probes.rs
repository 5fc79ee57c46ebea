//! Plans by certified probes: real steps, each certain to fit by those before it.

use plimsoll_predict::{PartReading, Phase};
use plimsoll_types::{Attempt, Observation, StepShape};

use super::{OnPlanned, PlanPart, Planning};
use crate::real::failed;
use crate::{MemoryPlan, PlanError, ProbePlanner, RealSteps, TrialError};

/// Steps of a probe: the last one is in the steady state, with the optimizer's state in place, and on Flex with thread
/// pools and packing buffers too.
const STEPS_OF_A_PROBE: usize = 3;

impl Planning<'_> {
    pub(super) fn by_probes(
        &self,
        steps: &mut dyn RealSteps,
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let (budget, max_trials) = (self.capacity.scale(self.target), self.max_probes);
        let (predictor, shortest, multiple) = (self.predictor, self.shortest, self.multiple);
        let planner = ProbePlanner { predictor, shortest, multiple, budget, max_trials };
        let mut cells = Vec::new();
        for phase in [Phase::Train, Phase::Infer] {
            let (shapes, mut n_done) = (self.shapes(phase), 0);
            let mut measure = |shape| {
                progress(PlanPart::Shapes(phase), n_done, (max_trials as usize).max(n_done + 1));
                n_done += 1;
                let n_samples = shapes.contains(&shape).then(|| (self.n_samples)(shape));
                steady(&mut *steps, phase, shape, n_samples)
            };
            if !shapes.is_empty() {
                cells.extend(planner.plan(phase, &shapes, &|shape| self.keys.key(phase, shape), &mut measure)?);
            }
            progress(PlanPart::Shapes(phase), n_done, n_done);
        }
        Ok(MemoryPlan::new(self.fingerprint.clone(), self.capacity, self.target, cells))
    }
}

/// Runs steps of one shape until they are in the steady state, and returns what the last showed: steps of real samples,
/// where a run has such a shape, and of blank ones on the way to it.
///
/// A step that ran out of memory with a known peak shows as much as one that ran.
fn steady(
    steps: &mut dyn RealSteps,
    phase: Phase,
    shape: StepShape,
    n_samples: Option<u32>,
) -> Result<PartReading, PlanError> {
    let mut run = || match (phase, n_samples) {
        (Phase::Train, None) => steps.blank(shape),
        (phase, n) => steps.run(phase, shape, n.unwrap_or(shape.samples)),
    };
    let mut ran = run();
    for _ in 1..STEPS_OF_A_PROBE {
        ran = ran.and_then(|_| run());
    }
    match ran {
        // One part alone accumulates nothing, and several do: what is learnt is the need of a part.
        Ok(trial) => Ok(trial.part),
        Err(TrialError::OutOfMemory(Attempt { resident, peak: Some(peak), nodes, .. })) => {
            Ok(PartReading::from(Observation { shape, resident, peak }).with_nodes(nodes))
        }
        Err(error) => Err(failed(shape, error)),
    }
}
