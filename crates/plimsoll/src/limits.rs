//! What fits, for loaders.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_step::{Elsewhere, ProgramNeeds, ProgramSteps};
use plimsoll_train::Limits;
use plimsoll_types::Bytes;

use crate::plan::Plan;

/// How many samples fit beside the model of a [`Step`](crate::Step) by what its steps have shown;
/// [`Step::limits`](crate::Step::limits) makes one.
///
/// It follows the step: what is known, what is in use and the budget are those of the last step that happened.
/// What fits forward and backward fits forward alone, so that a loader for validation may have these limits too.
#[derive(Clone, Debug)]
pub struct StepLimits(Arc<Mutex<Vec<Seen>>>);

/// What the last step has shown on a device.
#[derive(Debug)]
struct Seen {
    known: ProgramNeeds,
    resident: Bytes,
    budget: Bytes,
}

impl Seen {
    /// Returns what is known on each device, of which the first has so much in use and such a budget.
    fn of(steps: &ProgramSteps, resident: Bytes, budget: Bytes) -> Vec<Self> {
        let first = Self { known: steps.needs().clone(), resident, budget };
        let of = |it: &Elsewhere| Self { known: it.needs().clone(), resident: it.in_use(), budget: it.budget().budget };
        [first].into_iter().chain(steps.guarded().others().iter().map(of)).collect()
    }
}

impl StepLimits {
    /// Says what fits by what such steps have shown, where so much is in use and such is the budget.
    pub(crate) fn new(steps: &ProgramSteps, resident: Bytes, budget: Bytes) -> Self {
        Self(Arc::new(Mutex::new(Seen::of(steps, resident, budget))))
    }

    /// Says it from here on by what these have shown.
    pub(crate) fn follow(&self, steps: &ProgramSteps, resident: Bytes, budget: Bytes) {
        *self.seen() = Seen::of(steps, resident, budget);
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits for StepLimits {
    /// Returns 1 while nothing is known.
    fn most(&self, cost: u32) -> usize {
        let most = |it: &Seen| it.known.most(cost, it.resident, it.budget);
        self.seen().iter().map(most).min().unwrap_or(1)
    }
}

/// As many samples as the plan has room for at this cost, or at the next edge that was planned; none beyond the last.
impl Limits for Plan {
    fn most(&self, cost: u32) -> usize {
        let fitting = self.shapes.iter().filter(|it| it.fits && cost <= it.edge);
        fitting.map(|it| it.samples as usize).max().unwrap_or(0)
    }
}
