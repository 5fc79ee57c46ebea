//! What fits, for loaders.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use plimsoll_step::ProgramNeeds;
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
pub struct StepLimits(Arc<Mutex<Seen>>);

/// What the last step has shown.
#[derive(Debug)]
struct Seen {
    known: ProgramNeeds,
    resident: Bytes,
    budget: Bytes,
}

impl StepLimits {
    pub(crate) fn follow(&self, known: &ProgramNeeds, resident: Bytes, budget: Bytes) {
        *self.seen() = Seen { known: known.clone(), resident, budget };
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits for StepLimits {
    /// Returns 1 while nothing is known.
    fn most(&self, cost: u32) -> usize {
        let Seen { known, resident, budget } = &*self.seen();
        known.most(cost, *resident, *budget)
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
        let (resident, budget) = (self.steps.guarded().read()?.in_use, self.steps.budget()?.budget);
        let seen = Seen { known: self.steps.needs().clone(), resident, budget };
        Ok(self.limits.insert(StepLimits(Arc::new(Mutex::new(seen)))).clone())
    }
}
