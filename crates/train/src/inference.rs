//! Forward passes without gradients, under the same budget as training.

use std::ops::Range;

use plimsoll_guard::{Failure, Guard, GuardError};
use plimsoll_predict::{Phase, Violation};
use plimsoll_probe::{Probe, note_work};
use plimsoll_types::{Budget, Bytes, MemoryReading, Observation, StepShape};

use crate::controller::Controller;
use crate::signal::StopFlag;
use crate::step::{LeastNeeds, Pages, StepError, step_error, unless_out_of_memory};

/// Runs items of one edge in batches as large as the budget allows.
///
/// The first batch is a single item; its peak certifies the next ones. A batch that ran out of memory, or whose
/// measured peak exceeded the capacity, is run again in two halves. A single item that was measured to need more than there
/// is by now does not run, where peaks are exact.
///
/// Where the device reports no exact peaks, what training has reserved goes back to it first, and a batch that is
/// smaller than an earlier one teaches nothing, since its reading is the larger one's.
pub struct Inference<'a> {
    probe: &'a mut dyn Probe,
    controller: &'a mut Controller,
    budget: Budget,
    pages: Pages,
    /// What single items were measured to need, in earlier validations too.
    needs: Option<&'a mut LeastNeeds>,
    peak: Bytes,
    /// Readings above their bounds.
    violations: Vec<Violation>,
    /// Of the items that ran last.
    edge: u32,
    stop: StopFlag,
    /// Whether readings decide anything.
    heeds: bool,
    /// The longest edge of which an item fits, where longer ones are known not to.
    longest: Option<u32>,
    /// Told of each batch.
    tell: Option<Tell>,
}

/// Told of the shape of a batch before it runs.
type Tell = Box<dyn Fn(StepShape)>;

type Forward<'a> = dyn FnMut(Range<usize>) -> Result<(), StepError> + 'a;

type Tried = Result<(), Failure<Box<StepError>>>;

impl<'a> Inference<'a> {
    /// Measures with `probe`, predicts with `controller`, and ends early when `stop` asks for it.
    pub fn new(probe: &'a mut dyn Probe, controller: &'a mut Controller, budget: Budget, stop: StopFlag) -> Self {
        let pages = Pages::new(probe);
        let (needs, peak, violations, longest) = (None, Bytes::ZERO, Vec::new(), None);
        Self {
            probe,
            controller,
            budget,
            pages,
            needs,
            peak,
            violations,
            edge: 0,
            stop,
            heeds: true,
            longest,
            tell: None,
        }
    }

    /// Runs no item that was measured to need more than there is by now, and learns what they need.
    #[must_use]
    pub(crate) fn heeding(self, needs: &'a mut LeastNeeds) -> Self {
        Self { needs: Some(needs), ..self }
    }

    /// Lets no reading of memory decide anything: batches are as large as a plan allows, or single items without one.
    #[must_use]
    pub fn deterministic(self, is_so: bool) -> Self {
        Self { heeds: !is_so, ..self }
    }

    /// Runs no item of a longer edge than this, and says at once that it does not fit.
    #[must_use]
    pub fn up_to(self, longest: Option<u32>) -> Self {
        Self { longest, ..self }
    }

    /// Tells somebody of every batch from here on.
    pub(crate) fn tell(&mut self, tell: Tell) {
        self.tell = Some(tell);
    }

    /// Returns the high-water mark so far.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Returns the readings that were above their bounds.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Returns the edge of the items that ran last, or failed.
    pub(crate) fn edge(&self) -> u32 {
        self.edge
    }

    /// Runs `n_items` of this `edge`; `forward` returns once the results of its range are on the host.
    ///
    /// `forward` may see the same range again, whole or in halves, when its memory exceeded the capacity: results must
    /// be stored by item, not appended.
    ///
    /// # Errors
    ///
    /// [`StepError::NeverFits`] when one item alone exceeds the capacity, is known to need more, or is longer than
    /// [`Self::up_to`] allows, [`StepError::Interrupted`] when the run was asked to end, or the error of `forward`.
    pub fn run(
        &mut self,
        n_items: usize,
        edge: u32,
        forward: &mut dyn FnMut(Range<usize>) -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        self.edge = edge;
        if self.longest.is_some_and(|longest| longest < edge) {
            let Budget { capacity, budget } = self.budget;
            return Err(StepError::NeverFits {
                source: GuardError::NeverFits { sample: 0, needed: None, budget },
                capacity,
            });
        }
        let mut next = 0;
        while next < n_items {
            if self.stop.signal().is_some() {
                return Err(StepError::Interrupted);
            }
            let resident = self.probe.read()?.in_use;
            let n = (self.batch(edge, resident) as usize).min(n_items - next);
            let unknown = |_: &Range<usize>| None;
            let too_much = self.too_much(edge, resident);
            let guard = Guard { budget: self.budget.budget, predict: unknown, too_much: |_| too_much };
            guard
                .run(std::iter::once(next..next + n), |part| self.measured(part, edge, resident, forward))
                .map_err(|error| step_error(error, self.budget.capacity))?;
            next += n;
        }
        Ok(())
    }

    fn too_much(&self, edge: u32, resident: Bytes) -> Option<Bytes> {
        let needs = self.needs.as_deref().filter(|_| self.heeds)?;
        needs.too_much(Phase::Infer, StepShape::new(1, edge), resident, self.budget.capacity)
    }

    fn batch(&self, edge: u32, resident: Bytes) -> u32 {
        if self.heeds {
            return self.controller.inference_batch(edge, resident, self.budget.budget);
        }
        self.controller.planned_inference_batch(edge)
    }

    fn measured(&mut self, part: Range<usize>, edge: u32, resident: Bytes, forward: &mut Forward<'_>) -> Tried {
        let shape = StepShape::new(u32::try_from(part.len()).unwrap_or(u32::MAX), edge);
        self.pages.enter(self.probe, shape).map_err(|it| other(it.into()))?;
        self.probe.reset_peak().map_err(|it| other(it.into()))?;
        self.tell.iter().for_each(|tell| tell(shape));
        note_work(format_args!("{shape} without gradients"));
        match unless_out_of_memory(|| forward(part)).map_err(other)? {
            None | Some(Err(StepError::OutOfMemory(_))) => return self.failed(None),
            Some(done) => done.map_err(other)?,
        }
        let MemoryReading { peak, in_use, .. } = self.probe.read().map_err(|it| other(it.into()))?;
        if self.heeds {
            self.learn(Observation { shape, resident, peak }, in_use.saturating_sub(resident))?;
            if self.budget.capacity < peak {
                return self.failed(Some(peak));
            }
            if let (true, Some(needs)) = (self.pages.are_exact(), self.needs.as_deref_mut()) {
                needs.note(Phase::Infer, shape, resident, peak);
            }
        }
        self.peak = self.peak.max(peak);
        Ok(())
    }

    /// Learns what is a batch's own: one that needed nothing above what was resident teaches nothing, and what a loader takes
    /// for good meanwhile is none of its need.
    fn learn(&mut self, observation: Observation, kept: Bytes) -> Tried {
        if observation.peak <= observation.resident || !self.pages.shows(observation.shape) {
            return Ok(());
        }
        let learnt = self.controller.learn_inference(observation, kept);
        self.violations.extend(learnt.map_err(|it| other(StepError::Device(it.to_string())))?);
        Ok(())
    }

    /// Tidies up after a batch; its tensors are gone, since `forward` has returned.
    fn failed(&mut self, needed: Option<Bytes>) -> Tried {
        let is_worth_a_retry = self.pages.were_shared();
        self.pages.give_back(self.probe).map_err(|it| other(it.into()))?;
        Err(Failure::OutOfMemory { needed, is_worth_a_retry })
    }
}

fn other(error: StepError) -> Failure<Box<StepError>> {
    Failure::Other(Box::new(error))
}
