//! The flight recorder of a run.

use plimsoll_probe::Probe;

use super::Run;
use crate::error::TrainError;
use crate::incident::Surroundings;
use crate::job::Job;

impl<J: Job> Run<'_, J> {
    /// Writes what led to a failure beside the log.
    ///
    /// # Errors
    ///
    /// [`TrainError::RunDir`] when it cannot be written.
    pub(crate) fn record(&mut self, failure: String) -> Result<(), TrainError> {
        let now = look(self.step, self.guarded.probe());
        let incident = self.recorder.incident(failure, self.step, self.under_way.clone(), now);
        Ok(self.incidents.write(self.dir, &incident.to_json())?)
    }

    /// Writes down what ends the run, and returns it; that it cannot be written is the lesser evil.
    pub(crate) fn recorded(&mut self, error: TrainError) -> TrainError {
        drop(self.record(error.to_string()));
        error
    }

    /// Between two steps.
    pub(super) fn turn_recorder(&mut self) {
        let (probe, step) = (self.guarded.probe(), self.step);
        self.recorder.turn(step, &self.controller, || look(step, probe));
    }
}

/// Looks at the device's memory; what it does not tell is left out.
fn look(step: u64, probe: &dyn Probe) -> Surroundings {
    Surroundings {
        step,
        capacity: probe.capacity().ok(),
        held_by_others: probe.held_by_others(),
        reserved: probe.read().ok().map(|it| it.reserved),
        page: probe.page().ok(),
        largest_allocation: probe.largest_taken(),
    }
}
