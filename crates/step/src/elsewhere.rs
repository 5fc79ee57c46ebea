//! Other devices that parts of a model lie on.

use burn::module::Module;
use burn::tensor::Device;
use plimsoll_predict::Phase;
use plimsoll_probe::{Probe, ProbeError};
use plimsoll_types::{Attempt, Budget, Bytes, Fraction, MemoryReading, StepShape};

use crate::drained::Drained;
use crate::error::StepError;
use crate::gradients::gradient_bytes_on;
use crate::needs::LeastNeeds;
use crate::pages::{Certain, Pages};
use crate::program::{ProgramNeeds, Room};
use crate::request::{RanPart, StepPart};

/// A device that parts of a model lie on, beside the one that losses are read on: with readings, bounds and a budget of its own.
///
/// What is read of several devices is never put together: a step that needs much here and one that needs much there would
/// make a bound that neither comes near.
pub struct Elsewhere {
    probe: Drained,
    name: String,
    pages: Pages,
    needs: ProgramNeeds,
    /// What single samples were measured to need.
    least: LeastNeeds,
    budget: Budget,
    /// Bytes in use before the first part of a step.
    resident: Bytes,
    /// Bytes in use at the last reading.
    in_use: Bytes,
    /// The parts of a step, as they ran here.
    parts: Vec<RanPart>,
    /// The part that is under way.
    window: Option<RanPart>,
    /// The high-water mark of a step.
    peak: Bytes,
    /// What a part was to reach or has reached that did not fit here, where that is known.
    lacked: Option<Bytes>,
    /// Parts of the last step that did not fit here.
    failures: Vec<Attempt>,
}

impl Elsewhere {
    /// Measures with `probe` what happens on `device`, of whose needs so much is known.
    pub fn new(probe: Box<dyn Probe>, device: Device, needs: ProgramNeeds) -> Self {
        Self {
            pages: Pages::new(&*probe),
            name: probe.name(),
            probe: Drained { probe, device },
            needs,
            least: LeastNeeds::default(),
            budget: Budget::UNBOUNDED,
            resident: Bytes::ZERO,
            in_use: Bytes::ZERO,
            parts: Vec::new(),
            window: None,
            peak: Bytes::ZERO,
            lacked: None,
            failures: Vec::new(),
        }
    }

    /// Returns the device's name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what there is, and what of it a step may use.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns the high-water mark of the last step.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Returns the bytes in use at the last reading.
    pub fn in_use(&self) -> Bytes {
        self.in_use
    }

    /// Returns what is known of the program's needs here.
    pub fn needs(&self) -> &ProgramNeeds {
        &self.needs
    }

    pub(crate) fn needs_mut(&mut self) -> &mut ProgramNeeds {
        &mut self.needs
    }

    /// Returns the parts of the last step that did not fit here, whether it happened or not; none the second time.
    pub fn take_failures(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.failures)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.probe.device
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.pages.are_exact()
    }

    pub(crate) fn of_mixed_shapes(self) -> Self {
        Self { pages: self.pages.of_mixed_shapes(), ..self }
    }

    /// Reads what there is, of which a step may use a share.
    pub(crate) fn read_budget(&mut self, target: Fraction) -> Result<(), ProbeError> {
        let capacity = self.probe.capacity()?;
        self.budget = Budget { capacity, budget: capacity.scale(target) };
        Ok(())
    }

    /// Reads what is in use.
    pub(crate) fn read_in_use(&mut self) -> Result<Bytes, ProbeError> {
        self.in_use = self.probe.read()?.in_use;
        Ok(self.in_use)
    }

    /// Returns what the parts of a step may take here; a first step makes two moments of each weight, for most optimizers.
    pub(crate) fn room<M: Module>(&self, model: &M, has_stepped: bool) -> Room {
        let gradients = gradient_bytes_on(model, Some(self.device()));
        let moments = if has_stepped { Bytes::ZERO } else { gradients.saturating_mul(2) };
        Room { resident: self.in_use.saturating_add(moments), gradients, budget: self.budget.budget }
    }

    /// Returns what a part may take here that runs before the first step.
    pub(crate) fn bare_room(&self) -> Room {
        Room { resident: self.in_use, gradients: Bytes::ZERO, budget: self.budget.budget }
    }

    /// Begins an attempt whose first part has this shape.
    pub(crate) fn begin(&mut self, first: Option<StepShape>) -> Result<(), ProbeError> {
        let MemoryReading { in_use, reserved, .. } = self.probe.read()?;
        self.pages.begin();
        (self.resident, self.in_use, self.peak, self.lacked) = (in_use, in_use, Bytes::ZERO, None);
        self.parts.clear();
        let grown = |it: &StepShape| self.needs.predict(*it, in_use).is_some_and(|it| it.upper < reserved);
        match first.filter(grown) {
            Some(shape) => self.pages.outgrown(&mut self.probe, shape, reserved),
            None => Ok(()),
        }
    }

    /// Begins a part of another shape than the last.
    pub(crate) fn begin_pages(&mut self) {
        self.pages.begin();
    }

    /// Whether a part is certain to fit beside what is in use.
    pub(crate) fn is_certain(&self, shape: StepShape) -> bool {
        self.certain(shape).is_some()
    }

    fn certain(&self, shape: StepShape) -> Option<Certain> {
        let (budget, alone) = (self.budget.budget, self.needs.predict(shape, self.in_use)?);
        (alone.upper <= budget).then_some(Certain { alone, budget })
    }

    /// Whether a part may need more than a step may use.
    pub(crate) fn is_beyond(&mut self, shape: StepShape) -> bool {
        let upper = self.needs.predict(shape, self.in_use).map(|it| it.upper);
        self.lacked = upper.filter(|it| self.budget.budget < *it).or(self.lacked);
        upper.is_some_and(|it| self.budget.budget < it)
    }

    /// Returns what a single sample would reach at the very least, where that is known to be more than there is.
    pub(crate) fn too_much(&mut self, shape: StepShape) -> Option<Bytes> {
        let one = shape.with_samples(1);
        let needed = self.least.too_much(Phase::Train, one, self.in_use, self.budget.capacity);
        self.lacked = needed.or(self.lacked);
        needed
    }

    /// Starts a new high-water mark for a part.
    pub(crate) fn open_window(&mut self, part: &StepPart, group: usize) -> Result<(), ProbeError> {
        let (shape, certain) = (part.shape(), self.certain(part.shape()));
        let beside = self.pages.enter(&mut self.probe, shape, certain)?;
        self.probe.announce(shape);
        self.probe.reset_peak()?;
        self.in_use = self.probe.read()?.in_use;
        let (part, resident, page) = (part.clone(), self.in_use, Bytes::ZERO);
        self.window = Some(RanPart { part, resident, peak: None, page, nodes: 0, group, beside });
        Ok(())
    }

    /// Whether the part under way, of a graph of so many nodes, has stayed within what there is; where it has not, what it
    /// needed is noted.
    pub(crate) fn fits(&mut self, nodes: u64) -> Result<bool, ProbeError> {
        self.window.iter_mut().for_each(|it| it.nodes = nodes);
        let MemoryReading { peak, page, .. } = self.probe.read()?;
        if peak <= self.budget.capacity {
            return Ok(true);
        }
        if let Some(RanPart { part, resident, nodes, .. }) = self.window.take() {
            // Pages that an earlier, larger part reserved say nothing of this one.
            self.lacked = self.pages.shows(part.shape()).then_some(peak);
            self.failures.push(Attempt { peak: self.lacked, page, nodes, ..Attempt::new(part.shape(), resident) });
        }
        Ok(false)
    }

    /// Ends the part under way, whose gradients are added.
    pub(crate) fn close_window(&mut self) -> Result<(), ProbeError> {
        let MemoryReading { in_use, peak, page, .. } = self.probe.read()?;
        (self.in_use, self.peak) = (in_use, self.peak.max(peak));
        if let Some(mut ran) = self.window.take() {
            (ran.peak, ran.page) = (self.pages.read_of(ran.part.shape(), peak), page);
            self.parts.push(ran);
        }
        Ok(())
    }

    /// Returns what a part needed that did not fit here, where that is known, and whether it may fit after a cleanup.
    pub(crate) fn lacked(&self) -> (Option<Bytes>, bool) {
        (self.lacked, self.lacked.is_none() || self.pages.were_shared())
    }

    /// Whether the optimizer's step has stayed within what there is, where that can be told.
    pub(crate) fn holds_update(&self) -> Result<bool, ProbeError> {
        let peak = self.probe.read()?.peak;
        Ok(!self.is_exact() || peak <= self.budget.capacity)
    }

    /// Learns from the parts that did not fit here, and from those that ran instead.
    pub(crate) fn learn_failures(&mut self) {
        self.needs.learn_failures(&self.failures, &self.parts);
    }

    /// Learns what each part of a step needed that has ended; nothing where memory cannot be read, as the next step says.
    pub(crate) fn learn(&mut self) {
        let Ok(MemoryReading { in_use, peak, packed, .. }) = self.probe.read() else { return };
        let before = std::mem::replace(&mut self.in_use, in_use);
        self.peak = self.peak.max(peak);
        self.parts.last_mut().into_iter().for_each(|it| it.follow(before, peak));
        self.needs.note_packed(packed);
        self.needs.learn(&self.parts, in_use.saturating_sub(self.resident));
        if self.is_exact() {
            for RanPart { part, resident, peak, .. } in &self.parts {
                if let Some(peak) = peak {
                    self.least.note(Phase::Train, part.shape(), *resident, *peak);
                }
            }
        }
    }

    pub(crate) fn forget_pages(&mut self) {
        self.pages.forget();
    }

    /// Returns to the device what nobody holds any more.
    pub(crate) fn give_back(&mut self) -> Result<(), ProbeError> {
        self.window = None;
        self.pages.give_back(&mut self.probe)
    }

    /// Says of this device what stands in the way of a step.
    pub(crate) fn explained(&self, error: StepError) -> StepError {
        let Budget { capacity, budget } = self.budget;
        let source = match error {
            StepError::NeverFits { source, .. } => {
                StepError::NeverFits { source: source.elsewhere(self.lacked, budget), capacity }
            }
            StepError::NotDivided { n_samples, .. } => {
                StepError::NotDivided { n_samples, needed: self.lacked, capacity }
            }
            error => return error,
        };
        StepError::Elsewhere { device: self.name.clone(), source: Box::new(source) }
    }
}
