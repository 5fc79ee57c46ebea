//! Forward passes without gradients.

use std::ops::Range;

use burn::tensor::Tensor;
use plimsoll_guard::{Ahead, Failure, Guard, Happened, Now};
use plimsoll_predict::{PartReading, Phase};
use plimsoll_probe::{Probe, note_work};
use plimsoll_types::{Budget, Bytes, Extent, MemoryReading, Observation, StepShape};

use crate::error::{StepError, is_readable, unless_out_of_memory};
use crate::needs::LeastNeeds;
use crate::pages::Pages;

/// Runs forward passes under a budget, in halves where they must.
///
/// A pass that ran out of memory, or whose measured peak exceeded the capacity, is run again in two halves. A single item
/// that was measured to need more than there is by now does not run, where peaks are exact.
pub struct ForwardPasses<'a> {
    probe: &'a mut dyn Probe,
    pages: Pages,
    /// What single items were measured to need, in earlier passes too.
    needs: Option<&'a mut LeastNeeds>,
    /// Whether readings decide anything.
    heeds: bool,
    peak: Bytes,
}

/// What is done with a pass.
pub trait Pass {
    /// Runs a range of the items; returns once its results are on the host.
    ///
    /// It may see the same range again, whole or in halves.
    ///
    /// # Errors
    ///
    /// [`StepError::OutOfMemory`] when the range is to be run in halves; anything else ends it.
    fn run(&mut self, items: Range<usize>) -> Result<(), StepError>;

    /// Learns what a pass showed that is its own, and how much of it is still in use.
    ///
    /// # Errors
    ///
    /// What ends the passes.
    fn learn(&mut self, read: PartReading, kept: Bytes) -> Result<(), StepError>;
}

impl<'a> ForwardPasses<'a> {
    /// Measures with `probe`; what was reserved before goes back to the device first.
    pub fn new(probe: &'a mut dyn Probe) -> Self {
        let pages = Pages::new(probe);
        Self { probe, pages, needs: None, heeds: true, peak: Bytes::ZERO }
    }

    /// Runs no item that was measured to need more than there is by now, and learns what they need.
    pub(crate) fn heeding(self, needs: &'a mut LeastNeeds) -> Self {
        Self { needs: Some(needs), ..self }
    }

    /// Lets no reading of memory decide anything.
    #[must_use]
    pub fn unheeding(self) -> Self {
        Self { heeds: false, ..self }
    }

    /// Returns the high-water mark so far.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Returns what is in use.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when memory cannot be measured.
    pub fn resident(&self) -> Result<Bytes, StepError> {
        Ok(self.probe.read()?.in_use)
    }

    /// Runs items of one extent that found `resident` in use.
    ///
    /// # Errors
    ///
    /// [`StepError::NeverFits`] when one item alone exceeds the capacity, or is known to, or the error of the pass.
    pub fn run(
        &mut self,
        items: Range<usize>,
        (extent, resident): (Extent, Bytes),
        budget: Budget,
        pass: &mut dyn Pass,
    ) -> Result<(), StepError> {
        let needs = self.needs.as_deref().filter(|_| self.heeds);
        let one = StepShape::of(1, extent);
        let too_much = needs.and_then(|it| it.too_much(Phase::Infer, one, resident, budget.capacity));
        let (mut guard, ahead) = (Guard::new(false), Ahead { too_much, ..Ahead::default() });
        let mut now = guard.begin([items], budget.budget, true);
        loop {
            now = guard.on(match now {
                Now::Look(_) => Happened::Seen(ahead),
                Now::Run(part) => self.measured(part, (extent, resident), budget, pass)?,
                Now::CheckSum => return Ok(()),
                Now::Ask(obstacle) => return Err(StepError::of(obstacle, budget.capacity)),
                _ => unreachable!("nobody was asked what else can be done"),
            });
        }
    }

    fn measured(
        &mut self,
        part: Range<usize>,
        (extent, resident): (Extent, Bytes),
        budget: Budget,
        pass: &mut dyn Pass,
    ) -> Result<Happened, StepError> {
        let shape = StepShape::of(u32::try_from(part.len()).unwrap_or(u32::MAX), extent);
        self.pages.enter(self.probe, shape, None)?;
        self.probe.reset_peak()?;
        note_work(format_args!("{shape} without gradients"));
        match unless_out_of_memory(|| pass.run(part))? {
            None | Some(Err(StepError::OutOfMemory(_))) => return self.failed(None),
            Some(done) => done?,
        }
        let MemoryReading { peak, in_use, page, packed, .. } = self.probe.read()?;
        if self.heeds {
            // One that needed nothing above what was resident teaches nothing.
            if resident < peak && self.pages.shows(shape) {
                let read = PartReading::of(Observation { shape, resident, peak }, self.pages.are_exact(), page);
                pass.learn(read.with_packed(packed), in_use.saturating_sub(resident))?;
            }
            if budget.capacity < peak {
                return self.failed(Some(peak));
            }
            if let (true, Some(needs)) = (self.pages.are_exact(), self.needs.as_deref_mut()) {
                needs.note(Phase::Infer, shape, resident, peak);
            }
        }
        self.peak = self.peak.max(peak);
        Ok(Happened::Ran)
    }

    /// Tidies up after a pass; its tensors are gone, since it has returned.
    fn failed(&mut self, needed: Option<Bytes>) -> Result<Happened, StepError> {
        let is_worth_a_retry = self.pages.were_shared();
        self.pages.give_back(self.probe)?;
        Ok(Happened::Failed(Failure::OutOfMemory { needed, is_worth_a_retry }))
    }
}

/// Runs one pass of this shape and reads its results; returns the memory after it, and whether there was enough.
///
/// # Errors
///
/// [`StepError`] when the device fails in another way.
pub fn run_forward(
    probe: &dyn Probe,
    shape: StepShape,
    forward: impl FnOnce() -> Tensor<1>,
) -> Result<(MemoryReading, bool), StepError> {
    note_work(format_args!("{shape} without gradients"));
    let is_read = unless_out_of_memory(forward)?.map_or(Ok(false), |it| is_readable(it, probe));
    let reading = probe.read()?;
    Ok((reading, is_read?))
}
