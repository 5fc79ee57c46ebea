//! What the flight recorder leaves behind.

use plimsoll_monitor::decode;
use plimsoll_types::{Bytes, Event};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::controller::Controller;

/// Version of the file's layout.
const VERSION: u32 = 2;

/// A failure, with the last steps before it and the state that they began with, so that its decisions can be taken again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// Version of the layout.
    pub version: u32,
    /// What happened.
    pub failure: String,
    /// The step under way.
    pub step: u64,
    /// The samples of that step, where they were known.
    pub samples: Vec<u64>,
    /// The device's memory as it was seen on the way, the last time after the failure.
    pub surroundings: Vec<Surroundings>,
    /// Predictor and policy before the first of the events.
    pub controller: Controller,
    /// The events of the last steps: at least 200, where there were so many. Those that are no numbers are `null`.
    pub events: Vec<Value>,
}

/// The memory around a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surroundings {
    /// The next step.
    pub step: u64,
    /// What there is for this process.
    pub capacity: Option<Bytes>,
    /// What other processes hold.
    pub held_by_others: Option<Bytes>,
    /// What the allocator holds.
    pub reserved: Option<Bytes>,
    /// Size of its pages.
    pub page: Option<Bytes>,
    /// The largest single allocation of late.
    pub largest_allocation: Option<Bytes>,
}

/// Why a file is no incident.
#[derive(Debug, thiserror::Error)]
pub enum IncidentError {
    /// It cannot be read as one.
    #[error("it is no incident: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It belongs to another version of Plimsoll.
    #[error("it has version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// One of its events is none.
    #[error("event {number}: {problem}")]
    Event {
        /// Its place, from 1.
        number: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl Incident {
    /// The version that this program writes.
    pub const VERSION: u32 = VERSION;

    /// Reads an incident.
    ///
    /// # Errors
    ///
    /// [`IncidentError`].
    pub fn parse(text: &str) -> Result<Self, IncidentError> {
        let incident: Self = serde_json::from_str(text)?;
        if incident.version == VERSION { Ok(incident) } else { Err(IncidentError::Version(incident.version)) }
    }

    /// Returns its events.
    ///
    /// # Errors
    ///
    /// [`IncidentError::Event`] names the first that is none.
    pub fn events(&self) -> Result<Vec<Event>, IncidentError> {
        let mut events = Vec::with_capacity(self.events.len());
        for (number, event) in self.events.iter().enumerate() {
            let log = decode(&format!("{event}\n"));
            let log = log.map_err(|error| IncidentError::Event { number: number + 1, problem: error.to_string() })?;
            events.extend(log.events);
        }
        Ok(events)
    }

    /// Returns it as a line of JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"failure\":\"{error}\"}}")) + "\n"
    }
}
