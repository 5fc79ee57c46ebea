//! The death of the process that worked on the run before this one.

use plimsoll_types::{Bytes, Knobs, Stage};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::error::TrainError;
use crate::job::Job;

/// How the process before this one died; told to the one that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// What happened, in words.
    pub what: String,
    /// Whether memory was the cause.
    pub of_memory: bool,
    /// Whether it was killed without a word, as by the kernel of another machine, which counts that there.
    #[serde(default)]
    pub is_unexplained: bool,
    /// The knobs that it last ran with; those that the run goes on with, where it did not get that far.
    pub rung: Option<Knobs>,
    /// The rank that died, of several; all of them go lower where it is not known.
    #[serde(default)]
    pub rank: Option<u32>,
    /// All that there was, where that is known to be less than the capacity.
    pub capacity: Option<Bytes>,
}

impl Death {
    /// Returns it as a rank knows it on whose machine the kernel has killed since for want of memory, given the rung that it had
    /// reached.
    pub(super) fn of_own_memory(self, rank: u32, machine: &str, rung: Option<Knobs>) -> Self {
        let what = format!("{}, but that the out-of-memory count of {machine} rose", self.what);
        Self { what, of_memory: true, rank: Some(rank), rung, ..self }
    }
}

impl<J: Job> Run<'_, '_, J> {
    /// Logs a death of memory at the step where the run goes on, and lets the policy answer.
    ///
    /// A deterministic run does not: its sizes come from the plan alone.
    pub(super) fn log_death(&mut self, death: &Death) -> Result<(), TrainError> {
        let is_others = death.rank.is_some_and(|it| it != self.training.rank());
        if self.control.is_deterministic() || !death.of_memory || is_others {
            return Ok(());
        }
        let before = (self.control.knobs(), self.control.wanted());
        let rung = death.rung.unwrap_or(before.0);
        self.answer_failure(rung, Stage::Process)?;
        let is_smallest = (self.control.knobs(), self.control.wanted()) == before && rung == before.0;
        // There is nothing smaller to go on with: the longest samples first, and then all.
        let edges = [before.0.patch_size, 0];
        match edges.into_iter().find(|it| is_smallest && self.control.may_recompute(*it)) {
            Some(edge) => self.spare_memory(edge),
            None => Ok(()),
        }
    }
}
