//! Plans by certified probes: real steps, each certain to fit by those before it.

use plimsoll_plan::{Fingerprint, MemoryPlan, PlanError, ProbePlanner};
use plimsoll_predict::{PartReading, Peak, Phase, PredictorConfig};
use plimsoll_types::{Attempt, Bytes, StepShape};

use super::{OnPlanned, Planning, failed};
use crate::controller::Keys;
use crate::device::small_batch_regime;
use crate::job::Job;
use crate::trial::{TrialError, Trials};

/// Steps of a probe: the last one is in the steady state, with the optimizer's state in place, and on Flex with thread
/// pools and packing buffers too.
const STEPS_OF_A_PROBE: usize = 3;

impl<J: Job> Planning<'_, J> {
    pub(super) fn by_probes(
        &self,
        fingerprint: Fingerprint,
        capacity: Bytes,
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let (request, n_samples) = (self.request, self.n_samples());
        let (budget, max_trials) = (capacity.scale(request.target), request.max_probes);
        let predictor = PredictorConfig { features: self.job.features(), ..request.predictor };
        let planner = ProbePlanner { predictor, budget, max_trials };
        let (checkpointing, small_batch) = (request.checkpointing, small_batch_regime(request.device));
        let keys = Keys { checkpointing, platform: self.platform, small_batch };
        let mut trials = self.trials()?;
        let mut cells = Vec::new();
        for phase in [Phase::Train, Phase::Infer] {
            let (shapes, mut n_done) = (self.shapes(phase), 0);
            let mut measure = |shape| {
                progress(phase, n_done, (max_trials as usize).max(n_done + 1));
                n_done += 1;
                let n_samples = Some(n_samples).filter(|_| shapes.contains(&shape));
                steady(&mut trials, phase, shape, n_samples)
            };
            if !shapes.is_empty() {
                cells.extend(planner.plan(phase, &shapes, &|shape| keys.key(phase, shape), &mut measure)?);
            }
            progress(phase, n_done, n_done);
        }
        Ok(MemoryPlan::new(fingerprint, capacity, request.target, cells))
    }
}

/// Runs steps of one shape until they are in the steady state, and returns what the last showed: steps of real samples,
/// where a run has such a shape, and of blank ones on the way to it.
///
/// A step that ran out of memory with a known peak shows as much as one that ran.
fn steady<J: Job>(
    trials: &mut Trials<'_, J>,
    phase: Phase,
    shape: StepShape,
    n_samples: Option<u32>,
) -> Result<PartReading, PlanError> {
    let mut run = || match (phase, n_samples) {
        (Phase::Train, None) => trials.blank(shape),
        (phase, n) => trials.run(phase, shape, n.unwrap_or(shape.samples)),
    };
    let mut ran = run();
    for _ in 1..STEPS_OF_A_PROBE {
        ran = ran.and_then(|_| run());
    }
    match ran {
        // One part alone accumulates nothing, and several do: what is learnt is the need of a part.
        Ok(trial) => Ok(trial.part),
        Err(TrialError::OutOfMemory(Attempt { resident: before, peak: Some(peak), nodes, .. })) => {
            Ok(PartReading { shape, before, peak: Peak::Exact(peak), nodes })
        }
        Err(error) => Err(failed(shape, error)),
    }
}
