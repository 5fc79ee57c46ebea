//! A plan: every cell, held against a budget.

use plimsoll_predict::{Booked, Correction, Phase};
use plimsoll_types::{Bytes, Extent, Fraction, Recompute, StepShape};
use serde::{Deserialize, Serialize};

use crate::error::CHECKPOINTING_WAS_TRIED;
use crate::{Compared, Fingerprint, Fit, PlanError, PlannedCell, PlannedNeed, Schedule};

/// What every cell of a lattice needs on one device, for one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlan {
    /// What it was made for.
    pub fingerprint: Fingerprint,
    /// What the device has, or what was set.
    pub capacity: Bytes,
    /// The part of it that a step may use.
    pub target: Fraction,
    /// Both multiplied.
    pub budget: Bytes,
    /// What real steps added to the dry runs of training steps.
    pub training_correction: Correction,
    /// What real forward passes added to the dry runs of forward passes.
    pub inference_correction: Correction,
    /// The shapes that a run may train with, smallest first; what else was planned is for people.
    pub ladder: Vec<StepShape>,
    /// The cells, from small to large, training before inference.
    pub cells: Vec<PlannedCell>,
    /// What a mixed run holds at most.
    pub schedule: Option<Schedule>,
    /// What keeping activations was held against recomputing them, where both fit and the latter leaves room for larger
    /// micro-batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    /// Rehearsals that met kernels that the device had not tuned yet, and were made again once it had.
    #[serde(default, skip_serializing_if = "plimsoll_types::is_zero")]
    pub n_made_again: u64,
}

impl MemoryPlan {
    /// Holds cells against a budget.
    pub fn new(fingerprint: Fingerprint, capacity: Bytes, target: Fraction, cells: Vec<PlannedCell>) -> Self {
        let budget = capacity.scale(target);
        let mut plan = Self {
            fingerprint,
            capacity,
            target,
            budget,
            training_correction: Correction::default(),
            inference_correction: Correction::default(),
            ladder: Vec::new(),
            cells,
            schedule: None,
            compared: Vec::new(),
            n_made_again: 0,
        };
        plan.judge();
        plan
    }

    /// Returns the correction of a phase.
    pub fn correction_mut(&mut self, phase: Phase) -> &mut Correction {
        match phase {
            Phase::Train => &mut self.training_correction,
            Phase::Infer => &mut self.inference_correction,
        }
    }

    /// Returns the same plan with what real steps held beyond their rehearsals in `other`, a plan of the same program, and
    /// with a page more in every bound; for a plan that no real step has corrected.
    ///
    /// `page` is how large the allocator's pages are by now, which never become smaller: the page more is at least that.
    /// It is for what `other` cannot tell: with gradient checkpointing, 7 of 16 real steps of a mixed run on a software
    /// Vulkan device held a page more than their rehearsals, where without it none did.
    #[must_use]
    pub fn corrected_as(mut self, other: Option<&Self>, page: Bytes) -> Self {
        if let Some(other) = other {
            self.training_correction.clone_from(&other.training_correction);
            self.inference_correction.clone_from(&other.inference_correction);
        }
        let Self { training_correction, inference_correction, cells, .. } = &mut self;
        for cell in cells.iter_mut().filter(|it| it.page > Bytes::ZERO) {
            let correction = match cell.phase {
                Phase::Train => &*training_correction,
                Phase::Infer => &*inference_correction,
            };
            let page = cell.page.max(page);
            let held = Booked { page, ..Booked::default() };
            let (expected, upper) = (correction.expected(held), correction.upper(held).saturating_add(page));
            (cell.reserved, cell.upper) = (cell.reserved.saturating_add(expected), cell.upper.saturating_add(upper));
            if let Some(it) = &mut cell.in_run {
                (it.expected, it.upper) = (it.expected.saturating_add(expected), it.upper.saturating_add(upper));
            }
        }
        self.judge();
        self
    }

    /// Returns the same cells under another capacity.
    #[must_use]
    pub fn under(mut self, capacity: Bytes, target: Fraction) -> Self {
        (self.capacity, self.target, self.budget) = (capacity, target, capacity.scale(target));
        self.judge();
        self
    }

    /// Returns the cell of a shape.
    pub fn cell(&self, phase: Phase, shape: StepShape) -> Option<&PlannedCell> {
        self.cells.iter().find(|it| it.phase == phase && it.shape() == shape)
    }

    /// Returns the cells of a phase.
    pub fn of(&self, phase: Phase) -> impl Iterator<Item = &PlannedCell> {
        self.cells.iter().filter(move |it| it.phase == phase)
    }

    /// Returns what a run needs to know.
    pub fn needs(&self) -> Vec<PlannedNeed> {
        let is_used = |it: &&PlannedCell| it.phase == Phase::Infer || self.ladder.contains(&it.shape());
        let (budget, recompute) = (self.budget, self.fingerprint.recompute);
        self.cells.iter().filter(is_used).filter_map(|it| it.need(budget, recompute)).collect()
    }

    /// Returns whose activations are to be recomputed: those of the shortest edge of which nothing fits that a run may train
    /// with, and of all longer ones; the first edge, where samples have several axes.
    pub fn recompute(&self) -> Recompute {
        let fits = |extent: Extent| self.of(Phase::Train).any(|it| it.extent == extent && it.fit == Fit::Fits);
        let edges = || self.ladder.iter().map(|it| it.edge());
        match self.ladder.iter().filter(|it| !fits(it.extent())).map(|it| it.edge()).min() {
            Some(misfit) => Recompute::above(edges().filter(|it| *it < misfit).max()),
            None => Recompute::NEVER,
        }
    }

    /// Returns the samples of the largest micro-batch of an extent that fits and that a run may train with.
    pub fn largest_batch(&self, extent: Extent) -> Option<u32> {
        let fits = |it: &&StepShape| self.cell(Phase::Train, **it).is_some_and(|it| it.fit == Fit::Fits);
        self.ladder.iter().filter(|it| it.extent() == extent).filter(fits).map(|it| it.samples).max()
    }

    /// Returns the cell that a run executes first, since it fixes the size of the allocator's pages: to train with, the
    /// highest of the ladder that fits, and else the one with the largest single allocation.
    pub fn first(&self, phase: Phase) -> Option<&PlannedCell> {
        let fits = |it: &&PlannedCell| it.fit == Fit::Fits;
        let largest = || self.of(phase).filter(fits).max_by_key(|it| (it.largest_allocation, it.upper));
        if phase == Phase::Infer || self.ladder.is_empty() {
            return largest();
        }
        self.ladder.iter().rev().filter_map(|shape| self.cell(phase, *shape)).find(fits)
    }

    /// Refuses a plan whose smallest training cell does not fit, or with which a run trains and cannot validate, and says
    /// what would help.
    ///
    /// Where pages are planned, the device refuses what is too much and the run says so before it trains; elsewhere the
    /// first validation would end the process.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoCell`], [`PlanError::SmallestDoesNotFit`] or [`PlanError::ValidationDoesNotFit`].
    pub fn check(&self) -> Result<(), PlanError> {
        let smallest = self.of(Phase::Train).min_by_key(|it| it.upper).ok_or(PlanError::NoCell)?;
        let (budget, capacity) = (self.budget, self.capacity);
        if smallest.fit != Fit::Fits {
            let (shape, needed, advice) = (smallest.shape(), smallest.upper, self.advice(smallest));
            return Err(PlanError::SmallestDoesNotFit { shape, needed, budget, capacity, advice });
        }
        let outermost = Extent::outermost(self.of(Phase::Infer).map(|it| it.extent));
        let smallest_of = |extent| self.of(Phase::Infer).filter(|it| it.extent == extent).min_by_key(|it| it.upper);
        let needed = outermost.into_iter().filter_map(smallest_of);
        match needed.filter(|it| it.page == Bytes::ZERO && it.fit != Fit::Fits).max_by_key(|it| it.upper) {
            Some(unfit) => {
                let (shape, needed, enough) = (unfit.shape(), unfit.upper, self.enough(unfit));
                Err(PlanError::ValidationDoesNotFit { shape, needed, budget, capacity, enough })
            }
            None => Ok(()),
        }
    }

    /// Returns the longest first edge of which an item of a validation fits, where one does.
    pub fn longest_validation(&self) -> Option<u32> {
        self.of(Phase::Infer).filter(|it| it.fit == Fit::Fits).map(|it| it.extent.edge()).max()
    }

    /// Returns a capacity under which a cell fits, rounded up as it is shown.
    fn enough(&self, cell: &PlannedCell) -> Bytes {
        Bytes::from_f64_ceil(cell.upper.as_f64() / self.target.get()).shown_up()
    }

    /// Says what would make the smallest cell fit, from what is known of it.
    fn advice(&self, smallest: &PlannedCell) -> String {
        let mut ways = vec![format!("a capacity of {}", self.enough(smallest))];
        if smallest.batch > 1 {
            ways.push(format!("a smaller smallest batch (`batch.batch_min` is {})", smallest.batch));
        }
        ways.push(format!("smaller patches or lengths than {}", smallest.extent));
        let is_tried = self.fingerprint.recompute.is_on(smallest.extent.edge());
        if !is_tried {
            ways.push("`memory.gradient_checkpointing = \"on\"`".to_owned());
        }
        let tried = if is_tried { CHECKPOINTING_WAS_TRIED } else { "" };
        format!("{tried}any of these would help: {}, or a smaller model", ways.join(", "))
    }

    fn judge(&mut self) {
        for cell in self.cells.iter_mut().filter(|it| it.fit != Fit::NeverFits) {
            cell.fit = if cell.upper <= self.budget { Fit::Fits } else { Fit::OverBudget };
        }
    }
}
