//! Plans by dry run, corrected by few real steps.

use burn::tensor::Device;
use plimsoll_predict::{Booked, Correction, Phase};
use plimsoll_sampler::Permutation;
use plimsoll_types::{Bytes, Prediction, StepShape};

use super::{OnPlanned, PlanPart, Planning};
use crate::{
    Act, DryRunPlanner, Fit, InRun, MemoryPlan, OpenProbe, OpenSteps, PlanError, Program, Rehearsed, STEPS, Sweep,
};

/// Cells of each phase of which real steps run.
const CORRECTED: usize = 2;

/// What sets real steps apart, and the device that they run on.
type Apart<'a> = (&'a DryRunPlanner, &'a Device);

impl Planning<'_> {
    pub(super) fn by_dry_run<P: Program>(
        &self,
        program: &P,
        open: (OpenProbe<'_>, OpenSteps<'_>),
        progress: OnPlanned<'_>,
    ) -> Result<MemoryPlan, PlanError> {
        let planner = DryRunPlanner::try_open(self.device)?;
        let mut plan = MemoryPlan::new(self.fingerprint.clone(), self.capacity, self.target, Vec::new());
        plan.ladder.clone_from(&self.ladder);
        for phase in [Phase::Train, Phase::Infer] {
            let shapes = self.shapes(phase);
            if shapes.is_empty() {
                continue;
            }
            // Real steps of two of them follow.
            let n_real = if self.is_corrected { CORRECTED } else { 0 };
            let mut on_cell = |n_done, n| progress(PlanPart::Shapes(phase), n_done, n + n_real);
            let mut rehearsed =
                Sweep::try_new(&planner, program, phase)?.cells(&shapes, self.n_samples, &mut on_cell)?;
            let n_cells = rehearsed.len();
            let mut on_real = |n_done| progress(PlanPart::Shapes(phase), n_cells + n_done, n_cells + n_real);
            let correction =
                self.correction((&planner, program.device()), open, phase, &rehearsed, plan.budget, &mut on_real)?;
            for it in &mut rehearsed {
                it.correct(&correction);
            }
            plan.cells.extend(rehearsed.into_iter().map(|it| it.cell));
            *plan.correction_mut(phase) = correction;
        }
        let mut plan = plan.under(self.capacity, self.target);
        self.plan_run(&planner, program, &mut plan, progress)?;
        plan.n_made_again = planner.n_made_again();
        Ok(plan)
    }

    /// Runs real steps of the smallest cell and of the one with the largest allocation that is sure to fit after it.
    fn correction(
        &self,
        apart: Apart<'_>,
        open: (OpenProbe<'_>, OpenSteps<'_>),
        phase: Phase,
        rehearsed: &[Rehearsed],
        budget: Bytes,
        on_real: &mut dyn FnMut(usize),
    ) -> Result<Correction, PlanError> {
        let mut correction = Correction::default();
        if !self.is_corrected {
            return Ok(correction);
        }
        let may_run = |it: &&Rehearsed| it.cell.fit == Fit::Fits && it.cell.reserved <= budget;
        let Some(smallest) = rehearsed.iter().filter(may_run).min_by_key(|it| it.cell.reserved) else {
            return Ok(correction);
        };
        on_real(0);
        self.measure(apart, open, phase, smallest, &mut correction)?;
        on_real(1);
        let fits = |it: &&Rehearsed| it.upper(|booked| correction.upper_of_next(booked)) <= budget;
        let sure = rehearsed.iter().filter(may_run).filter(fits);
        match sure.max_by_key(|it| (it.cell.largest_allocation, it.cell.reserved)) {
            Some(largest) if largest.cell.shape() != smallest.cell.shape() => {
                self.measure(apart, open, phase, largest, &mut correction)?;
            }
            _ => (),
        }
        Ok(correction)
    }

    /// Runs as many real steps as a rehearsal does, from empty pools, and learns what they hold beyond it.
    fn measure(
        &self,
        (planner, device): Apart<'_>,
        open: (OpenProbe<'_>, OpenSteps<'_>),
        phase: Phase,
        cell: &Rehearsed,
        correction: &mut Correction,
    ) -> Result<(), PlanError> {
        let shape = cell.cell.shape();
        let act = (phase, shape, (self.n_samples)(shape));
        // Where they do not fit, the plan of the other cells stands; this one just did not confirm it.
        if let Some(real) = planner.real_steps(device, open, act, STEPS)? {
            correction.observe(shape, cell.second.booked(), real.pools.booked());
        }
        Ok(())
    }

    /// Plans what a run may use once more, as the run finds it: at its beginning, and after the validation and the step that
    /// it begins with; beside what the other phase leaves the runtime with. A staging buffer as large as the results of a validation that are
    /// read stays whatever is cleaned up.
    ///
    /// Plans a run of mixed shapes, too.
    fn plan_run<P: Program>(
        &self,
        planner: &DryRunPlanner,
        program: &P,
        plan: &mut MemoryPlan,
        progress: OnPlanned<'_>,
    ) -> Result<(), PlanError> {
        let act = |phase, shape| Act::of(phase, shape, (self.n_samples)(shape));
        let firsts = [Phase::Infer, Phase::Train].map(|phase| plan.first(phase).map(|it| (phase, it.shape())));
        let began: Vec<_> = firsts.into_iter().flatten().map(|(phase, it)| act(phase, it)).collect();
        let ladder = plan.ladder.clone();
        let corrections = [plan.training_correction.clone(), plan.inference_correction.clone()];
        let is_used = |phase, shape| phase == Phase::Infer || ladder.contains(&shape);
        let used = plan.cells.iter_mut().filter(|it| it.fit == Fit::Fits && is_used(it.phase, it.shape()));
        let used: Vec<_> = used.collect();
        let n = used.len();
        for (n_done, cell) in used.into_iter().enumerate() {
            progress(PlanPart::InRun, n_done, n);
            let InRun { first, later, spare } = planner.in_run(program, &began, &act(cell.phase, cell.shape()))?;
            let [training, inference] = &corrections;
            let (own, other) = if cell.phase == Phase::Train { (training, inference) } else { (inference, training) };
            let [first, later] = [first, later].map(|pools| {
                let booked = pools.booked();
                Booked { auxiliary: booked.auxiliary.saturating_add(other.auxiliary), ..booked }
            });
            let upper = own.upper(first).max(own.upper(later)).saturating_add(spare);
            cell.in_run = Some(Prediction { expected: own.expected(later), upper });
        }
        let fits = |it: &StepShape| plan.cell(Phase::Train, *it).is_some_and(|it| it.fit == Fit::Fits);
        let drawn = draw(&ladder.iter().copied().filter(fits).collect::<Vec<_>>(), self.schedule_steps);
        if let (Some((_, first)), false) = (firsts[1], drawn.is_empty()) {
            progress(PlanPart::Mixed, 0, 1);
            plan.schedule = Some(planner.schedule(program, &drawn, first, self.n_samples, &corrections[0])?);
        }
        Ok(())
    }
}

/// Draws shapes evenly: each as often as the others, in an order that depends on nothing.
fn draw(shapes: &[StepShape], n_steps: u32) -> Vec<StepShape> {
    let n = shapes.len() as u64;
    if n == 0 {
        return Vec::new();
    }
    let round = |at: u64| Permutation::new(n, 0, at / n).at(at % n);
    let drawn = (0..u64::from(n_steps)).map(round);
    drawn.filter_map(|at| shapes.get(usize::try_from(at).ok()?).copied()).collect()
}
