//! The search where a dry run says what any batch reserves.

use std::cell::RefCell;
use std::collections::BTreeMap;

use plimsoll_finder::{Found, Outcome, Search, Source};
use plimsoll_predict::{Booked, Correction};
use plimsoll_types::{Bytes, Prediction, StepShape};

use super::{BatchSearch, FindError};
use crate::{DryRunPlanner, Fit, PlanError, Program, Rehearsed, Sweep};

impl BatchSearch<'_> {
    /// Returns the answer, and the number of dry runs.
    pub(super) fn by_plan<P: Program>(&mut self, program: &P) -> Result<(Found, usize), FindError> {
        let planner = DryRunPlanner::try_open(self.finding.device)?;
        let sweep = Sweep::try_new(&planner, program, self.finding.phase)?;
        let mut plans =
            Plans { sweep: RefCell::new(sweep), known: RefCell::default(), correction: Correction::default() };
        loop {
            let n_samples = self.finding.n_samples;
            let failure = RefCell::new(None);
            let plan = |shape| {
                plans.predict(shape, n_samples(shape)).unwrap_or_else(|error| {
                    failure.replace(Some(error));
                    None
                })
            };
            let next = self.finder.search(Source::Plan(&plan));
            if let Some(error) = failure.into_inner() {
                return Err(error.into());
            }
            let batch = match next? {
                Search::Found(found) => return Ok((found, plans.known.into_inner().len())),
                Search::Try { batch, .. } => batch,
            };
            let shape = StepShape::of(batch, self.finding.finder.extent);
            let before = planner.pools(program.device());
            // From empty pools, as its plan.
            let tried = planner.really(program.device(), || self.real(shape))?;
            let real = planner.pools(program.device()).beyond(&before);
            self.steps.forget()?;
            let outcome = match tried.outcome {
                Outcome::Measured { resident, peak } if peak <= self.finder.capacity() => {
                    Outcome::Measured { resident, peak: plans.learn(shape, real.booked()) }
                }
                // What a step holds that was halved on the way is not its plan's.
                outcome => outcome,
            };
            self.finder.on_trial(batch, outcome)?;
        }
    }
}

/// Dry runs of one step each, and what real steps hold beyond them.
struct Plans<'a, P> {
    sweep: RefCell<Sweep<'a, P>>,
    known: RefCell<BTreeMap<StepShape, Rehearsed>>,
    correction: Correction,
}

impl<P: Program> Plans<'_, P> {
    /// Returns what a step of this shape reserves, or `None` where it never fits.
    fn predict(&self, shape: StepShape, n_samples: u32) -> Result<Option<Prediction>, PlanError> {
        let known = self.known.borrow().get(&shape).cloned();
        let it = match known {
            Some(it) => it,
            None => self.sweep.borrow_mut().cell(shape, n_samples)?,
        };
        self.known.borrow_mut().insert(shape, it.clone());
        let upper = it.upper(|booked| self.correction.upper_of_next(booked));
        let expected = self.correction.expected(it.steady.booked());
        Ok((it.cell.fit != Fit::NeverFits).then_some(Prediction { expected, upper }))
    }

    /// Learns what the first step of a process held, and returns what later ones hold at most.
    fn learn(&mut self, shape: StepShape, real: Booked) -> Bytes {
        let (first, steady, spare) = match self.known.borrow().get(&shape) {
            Some(it) => (it.first.booked(), it.steady.booked(), it.spare),
            None => (real, real, Bytes::ZERO),
        };
        self.correction.observe(shape, first, real);
        steady.total().saturating_add(real.total().saturating_sub(first.total())).saturating_add(spare)
    }
}
