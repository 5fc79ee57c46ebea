//! What the guarded step reads of memory, and what it remembers of that.

use burn::module::Module;
use plimsoll_predict::Phase;
use plimsoll_types::{Bytes, MemoryReading, Prediction, StepShape};

use super::GuardedStep;
use crate::elsewhere::Elsewhere;
use crate::error::StepError;
use crate::gradients::gradient_bytes;
use crate::pages::Certain;
use crate::passes::PredictShape;
use crate::request::RanPart;

impl GuardedStep {
    /// Reads what is in use before the first part of an attempt, which has this shape; what is reserved beyond what that part
    /// reaches goes back to the device first.
    pub(crate) fn begin_parts(
        &mut self,
        first: Option<StepShape>,
        predict: PredictShape<'_>,
    ) -> Result<Bytes, StepError> {
        let MemoryReading { in_use, reserved, .. } = self.probe.read()?;
        self.pages.begin();
        if let Some(shape) = first.filter(|it| predict(*it, in_use).is_some_and(|it| it.upper < reserved)) {
            self.pages.outgrown(&mut *self.probe, shape, reserved)?;
        }
        self.short = None;
        self.others.iter_mut().try_for_each(|it| it.begin(first))?;
        Ok(in_use)
    }

    /// Draws the line that no allocation may pass: at the capacity, or where only the device itself ends.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when the capacity cannot be read.
    pub fn draw_line(&mut self, is_at_capacity: bool) -> Result<(), StepError> {
        Ok(self.probe.draw_line(is_at_capacity.then_some(Bytes::MAX))?)
    }

    /// Forgets what single samples were measured to need, where steps need less from here on.
    pub fn forget_needs(&mut self) {
        self.needs.forget();
    }

    /// Lets the next step begin without what earlier ones have left reserved.
    pub fn forget_pages(&mut self) {
        self.pages.forget();
        self.others.iter_mut().for_each(Elsewhere::forget_pages);
    }

    /// Returns what a single sample would reach at the very least, where that is known to be more than there is.
    pub(crate) fn too_much(&self, shape: StepShape, in_use: Bytes, capacity: Bytes) -> Option<Bytes> {
        self.needs.too_much(Phase::Train, shape.with_samples(1), in_use, capacity)
    }

    /// Learns what single samples need, where peaks are their own.
    pub(crate) fn note_needs(&mut self, parts: &[RanPart]) {
        if !self.pages.are_exact() {
            return;
        }
        for RanPart { part, resident, peak, .. } in parts {
            if let Some(peak) = peak {
                self.needs.note(Phase::Train, part.shape(), *resident, *peak);
            }
        }
    }

    /// Reads memory after the optimizer's step; the peak includes that step where the device measures peaks exactly.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when memory cannot be measured.
    pub fn read(&self) -> Result<MemoryReading, StepError> {
        Ok(self.probe.read()?)
    }

    /// Starts a new high-water mark for a part of this shape; returns what it reaches too, where it begins among the pages of
    /// others.
    pub(crate) fn open_window(
        &mut self,
        shape: StepShape,
        certain: Option<Certain>,
    ) -> Result<(MemoryReading, Option<Prediction>), StepError> {
        let among = self.pages.enter(&mut *self.probe, shape, certain)?;
        self.probe.announce(shape);
        Ok((self.begin_window()?, among))
    }

    /// Starts a new high-water mark.
    pub(crate) fn begin_window(&mut self) -> Result<MemoryReading, StepError> {
        self.probe.reset_peak()?;
        Ok(self.probe.read()?)
    }

    /// Notes what a part holds that waits, and the nodes of its graph.
    pub(crate) fn note_beside(&mut self, waiting: Bytes, nodes: u64) {
        self.waiting = self.waiting.max(waiting);
        self.has_large_graph |= 0 < nodes;
    }

    /// Returns what a part holds that waits: its gradients at least, once it was noted.
    pub(crate) fn waiting<M: Module>(&self, model: &M) -> Option<Bytes> {
        (self.waiting != Bytes::ZERO).then(|| self.waiting.max(gradient_bytes(model)))
    }

    /// Whether the tables of some graph count.
    pub(crate) fn has_large_graph(&self) -> bool {
        self.has_large_graph
    }

    /// Returns to the device what nobody holds any more, such as what a failure has left reserved.
    ///
    /// # Errors
    ///
    /// [`StepError::Probe`] when the device refuses.
    pub fn give_back(&mut self) -> Result<(), StepError> {
        self.others.iter_mut().try_for_each(Elsewhere::give_back)?;
        Ok(self.pages.give_back(&mut *self.probe)?)
    }
}
