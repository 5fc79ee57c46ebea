//! What fits, for loaders.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use plimsoll_step::{Elsewhere, ProgramNeeds};
use plimsoll_train::Limits;
use plimsoll_types::Bytes;

use crate::error::Error;
use crate::plan::Plan;
use crate::step::Step;

/// How many samples fit beside the model of a [`Step`] by what its steps have shown; [`Step::limits`] makes one.
///
/// It follows the step: what is known, what is in use and the budget are those of the last step that happened.
/// What fits forward and backward fits forward alone, so that a loader for validation may have these limits too.
#[derive(Clone, Debug)]
pub struct StepLimits(Arc<Mutex<Vec<Seen>>>);

/// What the last step has shown on a device.
#[derive(Debug)]
pub(crate) struct Seen {
    known: ProgramNeeds,
    resident: Bytes,
    budget: Bytes,
}

impl StepLimits {
    pub(crate) fn follow(&self, seen: Vec<Seen>) {
        *self.seen() = seen;
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

impl<M: Module> Step<M> {
    /// Returns what says from here on how many samples fit, such as to a [loader](crate::Batches::loader).
    ///
    /// # Errors
    ///
    /// [`Error::Step`] when memory cannot be measured.
    pub fn limits(&mut self) -> Result<StepLimits, Error> {
        if let Some(limits) = &self.limits {
            return Ok(limits.clone());
        }
        let (resident, budget) = (self.steps.read_in_use()?, self.steps.budget()?.budget);
        let seen = self.seen(resident, budget);
        Ok(self.limits.insert(StepLimits(Arc::new(Mutex::new(seen)))).clone())
    }

    /// Returns what is known on each device, of which the first has so much in use and such a budget.
    pub(crate) fn seen(&self, resident: Bytes, budget: Bytes) -> Vec<Seen> {
        let first = Seen { known: self.steps.needs().clone(), resident, budget };
        let of = |it: &Elsewhere| Seen { known: it.needs().clone(), resident: it.in_use(), budget: it.budget().budget };
        [first].into_iter().chain(self.steps.guarded().others().iter().map(of)).collect()
    }
}
