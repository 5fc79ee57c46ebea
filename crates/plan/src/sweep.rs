//! All cells of a plan, by dry run.

use std::time::Instant;

use plimsoll_predict::{Booked, Correction, Phase, Source};
use plimsoll_types::{Bytes, StepShape};

use crate::limit::PageLimit;
use crate::{Act, DryRunPlanner, Fit, PlanError, PlannedCell, Pools, Program, Rehearsal};

/// Optimizer steps of a rehearsal: the first makes the optimizer's state, and the second is the first that finds it.
pub const STEPS: usize = 2;

/// The same of a program whose steps keep their pages: each finds what those before it have left in pieces, and the last that
/// opened another page was the fourth, of all that were measured.
const STEPS_UNTIL_SETTLED: usize = 6;

/// Says how many samples an optimizer step in micro-batches of a shape has.
pub type NSamples<'a> = &'a dyn Fn(StepShape) -> u32;

/// Told how many cells of how many are planned.
pub type OnProgress<'a> = &'a mut dyn FnMut(usize, usize);

/// A cell, and the pools that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Rehearsed {
    /// The cell; it carries no correction yet, and is not held against a budget: see [`MemoryPlan`](crate::MemoryPlan).
    pub cell: PlannedCell,
    /// After the first step of a process.
    pub first: Pools,
    /// After the second.
    pub second: Pools,
    /// After every later one.
    pub steady: Pools,
    /// What to add for an upper bound: a page, where the pages may not be those of a fresh process, and another where steps
    /// keep them, since a loop of one's own may drop what it holds in another order.
    pub spare: Bytes,
}

impl Rehearsed {
    /// Adds what real steps hold beyond their rehearsals.
    pub fn correct(&mut self, correction: &Correction) {
        self.cell.reserved = correction.expected(self.steady.booked());
        self.cell.upper = self.upper(|booked| correction.upper(booked));
    }

    /// Returns an upper bound of every step, the first included, whose parameters have pages of their own.
    pub(crate) fn upper(&self, upper: impl Fn(Booked) -> Bytes) -> Bytes {
        upper(self.first.booked()).max(upper(self.steady.booked())).saturating_add(self.spare)
    }
}

/// Plans cells of one phase, each by itself: what a fresh process holds after steps of `n_samples` in micro-batches of
/// its shape, the ragged one included, or after a forward pass.
pub struct Sweep<'a, P> {
    planner: &'a DryRunPlanner,
    program: &'a P,
    phase: Phase,
    limit: Bytes,
    whole: PageLimit,
}

impl<'a, P: Program> Sweep<'a, P> {
    /// Prepares for cells of a phase.
    ///
    /// # Errors
    ///
    /// [`PlanError::Probe`] when the device does not tell its page limit.
    pub fn try_new(planner: &'a DryRunPlanner, program: &'a P, phase: Phase) -> Result<Self, PlanError> {
        let limit = planner.page_limit()?;
        Ok(Self { planner, program, phase, limit, whole: PageLimit::new(limit) })
    }

    /// Plans one cell of a step of `n_samples`, and before it what its size is judged by: its halves, down to one sample.
    ///
    /// # Errors
    ///
    /// [`PlanError::ReadsValue`] when the step reads a value.
    pub fn cell(&mut self, shape: StepShape, n_samples: u32) -> Result<Rehearsed, PlanError> {
        let halves = std::iter::successors(Some(shape.samples / 2), |n| Some(n / 2)).take_while(|n| *n > 0);
        for samples in halves.collect::<Vec<_>>().into_iter().rev() {
            let half = shape.with_samples(samples);
            if !self.whole.knows(half) {
                self.rehearse(half, samples)?;
            }
        }
        self.rehearse(shape, n_samples)
    }

    fn rehearse(&mut self, shape: StepShape, n_samples: u32) -> Result<Rehearsed, PlanError> {
        let start = Instant::now();
        let keeps_pages = self.program.keeps_pages();
        let n_steps = if keeps_pages { STEPS_UNTIL_SETTLED } else { STEPS };
        let rehearsal = self.planner.rehearse(self.program, &vec![Act::of(self.phase, shape, n_samples); n_steps])?;
        let after = |n: usize| rehearsal.after.get(n - 1).cloned().unwrap_or_default();
        let (first, second, steady) = (after(1), after(STEPS), after(n_steps));
        let other_order = if keeps_pages { steady.page() } else { Bytes::ZERO };
        let spare = rehearsal.spare().saturating_add(other_order);
        let failed = self.whole.failed(shape, Some(steady.largest).filter(|it| *it > Bytes::ZERO));
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        Ok(Rehearsed { cell: planned(self.phase, shape, &steady, failed, milliseconds), first, second, steady, spare })
    }

    /// Plans every shape, from small to large, each in a step of as many samples as `n_samples` says.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoCell`] without a shape, [`PlanError::ReadsValue`] when the step reads a value,
    /// [`PlanError::NeverFits`] when the smallest shape holds a tensor that the device cannot serve.
    pub fn cells(
        &mut self,
        shapes: &[StepShape],
        n_samples: NSamples<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Vec<Rehearsed>, PlanError> {
        let mut shapes = shapes.to_vec();
        shapes.sort_by_key(|it| (it.positions().saturating_mul(it.extent().positions()), it.extent()));
        let smallest = *shapes.first().ok_or(PlanError::NoCell)?;
        let mut cells = Vec::with_capacity(shapes.len());
        for (n_done, shape) in shapes.iter().enumerate() {
            progress(n_done, shapes.len());
            let rehearsed = self.cell(*shape, n_samples(*shape))?;
            if rehearsed.cell.fit == Fit::NeverFits && *shape == smallest {
                let (tensor, limit) = (rehearsed.cell.largest_allocation, self.limit);
                return Err(PlanError::NeverFits { shape: *shape, tensor, limit });
            }
            cells.push(rehearsed);
        }
        progress(shapes.len(), shapes.len());
        Ok(cells)
    }
}

/// What the pools hold after a step or a forward pass of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct InRun {
    /// After a first one, whose parameters are where they were made: Burn keeps these in pages of their own until the
    /// optimizer has made others.
    pub first: Pools,
    /// After every later one.
    pub later: Pools,
    /// What to add for an upper bound: a page, where those of the process may be others.
    pub spare: Bytes,
}

impl DryRunPlanner {
    /// Plans a cell again, as a run finds it that began with a forward pass and a step, where it has them, and returned its
    /// pages; and as one finds it that began with that forward pass alone.
    ///
    /// # Errors
    ///
    /// [`PlanError::ReadsValue`] when a step reads a value.
    pub fn in_run<P: Program>(&self, program: &P, began: &[Act], act: &Act) -> Result<InRun, PlanError> {
        let passes = began.iter().filter(|it| matches!(it, Act::Infer(_)));
        let mut first = self.rehearse(program, &passes.chain([&Act::CleanUp, act]).cloned().collect::<Vec<_>>())?;
        let mut later =
            self.rehearse(program, &began.iter().chain([&Act::CleanUp, act, act]).cloned().collect::<Vec<_>>())?;
        let spare = first.spare().max(later.spare());
        let last = |of: &mut Rehearsal| of.after.pop().unwrap_or_default();
        Ok(InRun { first: last(&mut first), later: last(&mut later), spare })
    }
}

fn planned(phase: Phase, shape: StepShape, pools: &Pools, failed: Option<Bytes>, planning_ms: f64) -> PlannedCell {
    PlannedCell {
        phase,
        batch: shape.samples,
        extent: shape.extent(),
        resident: pools.in_use,
        nodes: 0,
        packed: Bytes::ZERO,
        reserved: pools.reserved,
        upper: pools.reserved,
        in_run: None,
        in_use: None,
        upper_in_use: None,
        page: pools.page(),
        largest_allocation: failed.unwrap_or(pools.largest),
        source: Source::DryRun,
        fit: if failed.is_some() { Fit::NeverFits } else { Fit::Fits },
        planning_ms,
    }
}
