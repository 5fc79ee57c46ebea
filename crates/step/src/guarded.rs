//! What steps run on, and what they remember of each other.

mod memory;
mod others;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use plimsoll_fleet::Fleet;
use plimsoll_guard::Guard;
use plimsoll_probe::Probe;
use plimsoll_types::{Attempt, Bytes};

use crate::drained::Drained;
use crate::elsewhere::Elsewhere;
use crate::error::{ReadError, StepError, is_readable, read_values, unless_out_of_memory};
use crate::forward::ForwardPasses;
use crate::gradients::squared_weights;
use crate::issue::Loss;
use crate::needs::LeastNeeds;
use crate::pages::Pages;
use crate::running::RunningStates;
use crate::team::Team;
use crate::unread::Unread;

/// Runs the forward and backward passes of optimizer steps under a budget.
///
/// A part that runs out of memory, or whose measured peak exceeded the capacity, is discarded and run again in two
/// halves, and every later part of its size in the step runs in halves at once: the same samples, weighted so that the
/// gradient is the one of the undivided step. A single sample that was measured to need more than there is by now does not
/// run, where peaks are exact: nothing but the system may be there to refuse it. Before the optimizer may step, one scalar
/// that depends on every gradient is read, because a failed allocation on `CubeCL` shows only there. A panic of `CubeCL` for
/// want of memory counts as such a failure.
///
/// Where the device reports no exact peaks (`CubeCL`: what is reserved, which falls only by a cleanup), unused pages go
/// back to it after a failure and before a step of another shape than the last, so that a peak is never that of an
/// earlier, larger part; where steps are [of mixed shapes](Self::of_mixed_shapes), only as long as it was not read once, or
/// all pages together would be above the budget.
/// A part that failed among the pages of earlier ones, or was refused an allocation, is tried once more after the cleanup
/// before it is split.
pub struct GuardedStep {
    probe: Box<dyn Probe>,
    pub(crate) device: Device,
    pub(crate) pages: Pages,
    needs: LeastNeeds,
    /// The most that a part held which ran beside others, and waited.
    waiting: Bytes,
    /// Whether such a part had a graph whose tables count.
    has_large_graph: bool,
    /// The parts of the last step that ran out of memory.
    pub(crate) failures: Vec<Attempt>,
    /// What forward passes change in the model, from before the last step.
    pub(crate) before: RunningStates,
    /// What decides what is done with a step.
    guard: Guard,
    /// The ranks that do it together.
    team: Team,
    /// Other devices that parts of the model lie on.
    others: Vec<Elsewhere>,
    /// The one of them that a part did not fit on, where that was no other.
    short: Option<usize>,
}

/// How far the seeds of two steps are apart: the odd number nearest to 2^64 divided by the golden ratio, so that the steps
/// of runs with seeds that are near to each other share none.
const SEED_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

impl GuardedStep {
    /// Measures with `probe` what happens on `device`.
    pub fn new(probe: Box<dyn Probe>, device: Device) -> Self {
        let pages = Pages::new(&*probe);
        let (before, guard) = (RunningStates::default(), Guard::new(!probe.has_exact_peak()));
        Self {
            probe: Box::new(Drained { probe, device: device.clone() }),
            device,
            pages,
            needs: LeastNeeds::default(),
            waiting: Bytes::ZERO,
            has_large_graph: false,
            failures: Vec::new(),
            before,
            guard,
            team: Team::default(),
            others: Vec::new(),
            short: None,
        }
    }

    /// Does each step together with other ranks, each of which runs some of its samples.
    ///
    /// A request names the micro-batches that this rank runs, of all samples of the step; an attempt then ends with the
    /// gradient, the losses and the norms of the step as a whole, the same bits on every rank. What a forward pass changes in
    /// the model, such as running statistics, is each rank's own.
    #[must_use]
    pub fn in_team(self, fleet: Box<dyn Fleet>) -> Self {
        Self { team: Team::new(fleet), ..self }
    }

    /// Returns the ranks that do steps together.
    pub fn team(&mut self) -> &mut Team {
        &mut self.team
    }

    /// Returns which of the ranks this is, from 0.
    pub fn rank(&self) -> u32 {
        self.team.rank()
    }

    /// Whether there is no other rank.
    pub(crate) fn is_alone(&self) -> bool {
        self.team.is_alone()
    }

    /// Lets parts that are certain to fit begin among the pages of other shapes, where all together stay within the budget:
    /// for steps that are of many shapes by nature, where no high-water mark is to be that of the last.
    #[must_use]
    pub fn of_mixed_shapes(self) -> Self {
        let others = self.others.into_iter().map(Elsewhere::of_mixed_shapes).collect();
        Self { pages: self.pages.of_mixed_shapes(), others, ..self }
    }

    /// Returns the parts of the last step that ran out of memory, whether it happened or not; none the second time.
    pub fn take_failures(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.failures)
    }

    /// The device that steps run on.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the probe.
    pub fn probe(&self) -> &dyn Probe {
        &*self.probe
    }

    /// Lends the probe to someone who will use the device: the next step begins without what that leaves reserved.
    pub fn probe_mut(&mut self) -> &mut dyn Probe {
        self.pages.forget();
        &mut *self.probe
    }

    /// Begins forward passes on the same device, which heed what single items were measured to need; the next step begins
    /// without what they leave reserved.
    pub fn forward_passes(&mut self) -> ForwardPasses<'_> {
        self.pages.forget();
        ForwardPasses::new(&mut *self.probe).heeding(&mut self.needs)
    }

    /// Returns what decides what is done with a step, and what now that one has stopped.
    pub fn guard(&mut self) -> &mut Guard {
        &mut self.guard
    }

    /// Puts back what the forward passes of the last step have changed in the model, such as running statistics, where that
    /// step is not committed.
    pub fn discard<M: Module>(&mut self, model: &M) {
        std::mem::take(&mut self.before).put_back(model);
    }

    /// Whether the forward passes of the last attempt have changed the model, as a batch normalisation does; not committed yet.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the device fails.
    pub fn has_changed<M: Module>(&self, model: &M) -> Result<bool, StepError> {
        let Some(difference) = self.before.difference(model, &self.device) else { return Ok(false) };
        let difference = unless_out_of_memory(|| read_values(difference, self.probe()))?;
        match difference {
            Some(Ok(values)) => Ok(values.iter().any(|it| *it != 0.0)),
            Some(Err(ReadError::Other(error))) => Err(*error),
            // What cannot be said now is said by the next step.
            Some(Err(_)) | None => Ok(false),
        }
    }

    /// Seeds each device for a step, so that what is random in it depends on the seed and its number alone.
    pub fn seed_step(&self, seed: u64, step: u64) {
        let seed = seed.wrapping_add(step.wrapping_mul(SEED_STRIDE));
        self.device.seed(seed);
        self.others.iter().for_each(|it| it.device().seed(seed));
    }

    /// Lets what the forward passes of the last step have changed stay.
    pub(crate) fn keep(&mut self) {
        self.before = RunningStates::default();
    }

    /// Whether every weight can be read: after an optimizer's step that ran out of memory some cannot.
    ///
    /// # Errors
    ///
    /// [`StepError`] when the device fails in another way.
    pub fn weights_are_whole<M: Module>(&self, model: &M) -> Result<bool, StepError> {
        let read = unless_out_of_memory(|| is_readable(squared_weights(model, &self.device), self.probe()))?;
        read.unwrap_or(Ok(false))
    }

    /// Whether parts of a model may run side by side: on one device, where each thread tells what it takes, no forward pass
    /// changes what others see, and one has drawn the weights, in the order in which they are used.
    pub fn runs_beside<M: Module>(&self, model: &M) -> bool {
        self.pages.are_exact() && self.others.is_empty() && RunningStates::are_none(model)
    }

    /// Gathers what is read of a part: the loss and what belongs to tasks, and on devices that fail silently the norm of the
    /// part's gradients with it.
    pub(crate) fn unread<M: Module>(&self, model: &M, loss: Option<Loss>, gradients: &GradientsParams) -> Unread {
        Unread::of(loss, self.is_silent().then_some((model, gradients, &self.device)))
    }
}
