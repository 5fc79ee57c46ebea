//! Real steps, apart from all else that a device does.

use burn::tensor::Device;
use plimsoll_predict::Phase;
use plimsoll_types::StepShape;

use crate::real::failed;
use crate::{DryRunPlanner, OpenProbe, OpenSteps, PlanError, Pools, TrialError};

/// What real steps of one shape came to.
pub(crate) struct RealRun {
    /// What the pools hold after the last, beyond what they held before the first.
    pub(crate) pools: Pools,
    /// Wall time of each, in seconds.
    pub(crate) seconds: Vec<f64>,
}

impl DryRunPlanner {
    /// Runs real steps of a shape, each of so many samples, from empty pools; `None` where one ran out of memory.
    pub(crate) fn real_steps(
        &self,
        device: &Device,
        (open_probe, open_steps): (OpenProbe<'_>, OpenSteps<'_>),
        (phase, shape, n_samples): (Phase, StepShape, u32),
        n_steps: usize,
    ) -> Result<Option<RealRun>, PlanError> {
        let mut probe = open_probe()?;
        probe.cleanup()?;
        let ran = self.really(device, || {
            let before = self.pools(device);
            let (mut steps, mut seconds) = (open_steps()?, Vec::with_capacity(n_steps));
            for _ in 0..n_steps {
                match steps.run(phase, shape, n_samples) {
                    Ok(trial) => seconds.push(trial.seconds),
                    Err(TrialError::OutOfMemory(_)) => return Ok(None),
                    Err(error) => return Err(failed(shape, error)),
                }
            }
            Ok(Some(RealRun { pools: self.pools(device).beyond(&before), seconds }))
        })?;
        probe.cleanup()?;
        Ok(ran)
    }
}
