//! Everything that is to be planned of a program, for one device.

mod by_dry_run;
mod by_probes;

use plimsoll_predict::{Keys, Phase, PredictorConfig};
use plimsoll_probe::DeviceKind;
use plimsoll_types::{Bytes, Fraction, StepShape};

use crate::{Fingerprint, MemoryPlan, NSamples, OpenProbe, OpenSteps, PlanError, Program};

/// What is to be planned, of which program, and for which device.
pub struct Planning<'a> {
    /// The device.
    pub device: DeviceKind,
    /// What the plan is made for.
    pub fingerprint: Fingerprint,
    /// What there is.
    pub capacity: Bytes,
    /// The part of it that a step may use.
    pub target: Fraction,
    /// Shapes of micro-batches that a run may train with, smallest first.
    pub ladder: Vec<StepShape>,
    /// More shapes of micro-batches, for people to look at.
    pub lattice: Vec<StepShape>,
    /// Shapes of forward passes without gradients.
    pub inference: Vec<StepShape>,
    /// The samples of an optimizer step.
    pub n_samples: NSamples<'a>,
    /// What names the kernels that a shape runs, where certified probes plan.
    pub keys: Keys,
    /// Bounds, where certified probes plan.
    pub predictor: PredictorConfig,
    /// The edge that the way up to the longest begins with, where certified probes plan.
    pub shortest: u32,
    /// What edges on this way grow by multiples of: 1 where a model takes any.
    pub multiple: u32,
    /// Most probes of each phase, where certified probes plan; the way up to the longest edge may take more, as
    /// [`ProbePlanner::max_trials`](crate::ProbePlanner::max_trials) says.
    pub max_probes: u32,
    /// Whether real steps of two cells of each phase correct the dry runs, where those plan.
    pub is_corrected: bool,
    /// Steps of mixed shapes that are planned as a whole.
    pub schedule_steps: u32,
}

/// What of a plan is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPart {
    /// The shapes of a phase, each for itself.
    Shapes(Phase),
    /// The shapes that fit, each as a run finds it.
    InRun,
    /// Steps of mixed shapes, as a whole.
    Mixed,
}

/// Told of what is being planned, and how much of how much of it is done.
pub type OnPlanned<'a> = &'a mut dyn FnMut(PlanPart, usize, usize);

impl Planning<'_> {
    /// Plans every shape.
    ///
    /// On a device with pools by dry runs of `program`, corrected by real steps of two cells of each phase; on others by
    /// certified probes, which are real steps too.
    /// `open` opens what measures the device, and begins such steps; they do the same as `program`.
    ///
    /// # Errors
    ///
    /// [`PlanError`]; see there. A plan in which nothing fits is none: see [`MemoryPlan::check`].
    pub fn run<P: Program>(
        &self,
        program: &P,
        open: (OpenProbe<'_>, OpenSteps<'_>),
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let mut plan = match self.device {
            DeviceKind::Flex => self.by_probes(&mut *(open.1)()?, progress),
            DeviceKind::Vulkan(_) | DeviceKind::Cuda(_) => self.by_dry_run(program, open, progress),
        }?;
        plan.ladder.clone_from(&self.ladder);
        Ok(plan)
    }

    fn shapes(&self, phase: Phase) -> Vec<StepShape> {
        let mut shapes = match phase {
            Phase::Train => self.ladder.iter().chain(&self.lattice).copied().collect(),
            Phase::Infer => self.inference.clone(),
        };
        shapes.sort_unstable_by_key(|it: &StepShape| (it.extent(), it.samples));
        shapes.dedup();
        shapes
    }
}
