//! The same events again, and whether they give the same decisions.

use plimsoll_predict::PredictError;
use plimsoll_types::{Decided, Decision, Event};

use crate::controller::{Controller, ControllerError};
use crate::incident::{Incident, IncidentError};

/// A decision that a replay takes differently from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The step of the event that was answered.
    pub step: u64,
    /// What the log says.
    pub logged: Option<Decision>,
    /// What the replay says.
    pub replayed: Option<Decision>,
}

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Decisions compared.
    pub decisions: usize,
    /// Where they differ.
    pub mismatches: Vec<Mismatch>,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log does not begin with the start of a run.
    #[error("replay: the log does not begin with `run_started`")]
    NoHead,
    /// The head's configuration cannot be read.
    #[error("replay: the configuration in the log's head: {0}")]
    Head(#[from] serde_json::Error),
    /// The head's configuration is refused.
    #[error("replay: {0}")]
    Controller(#[from] ControllerError),
    /// An incident holds something that is no event.
    #[error("replay: {0}")]
    Incident(#[from] IncidentError),
    /// An event makes no sense.
    #[error("replay: step {step}: {source}")]
    Event {
        /// The step.
        step: u64,
        /// What is wrong with it.
        source: PredictError,
    },
}

/// Feeds a log to a fresh controller and compares its decisions with those that the log records.
///
/// # Errors
///
/// [`ReplayError`] when the log cannot be replayed at all.
pub fn replay(events: &[Event]) -> Result<Replay, ReplayError> {
    let mut replaying = Replaying::default();
    events.iter().try_for_each(|it| replaying.hear(it))?;
    replaying.end()
}

/// A [`replay()`] whose events come one by one, for whoever does not keep all of them.
#[derive(Debug, Default)]
pub struct Replaying {
    player: Option<Player>,
    replay: Replay,
}

impl Replaying {
    /// Takes in the next event; the first is the start of a run.
    ///
    /// # Errors
    ///
    /// As [`replay()`].
    pub fn hear(&mut self, event: &Event) -> Result<(), ReplayError> {
        if self.player.is_none() {
            let Event::RunStarted(head) = event else { return Err(ReplayError::NoHead) };
            let controller = Controller::try_new(serde_json::from_str(&head.controller)?)?;
            self.player = Some(Player { controller, answer: None });
        }
        self.player.as_mut().map_or(Ok(()), |it| it.play(event, &mut self.replay))
    }

    /// Returns what the events came to.
    ///
    /// # Errors
    ///
    /// [`ReplayError::NoHead`] when there were none.
    pub fn end(self) -> Result<Replay, ReplayError> {
        self.player.map_or(Err(ReplayError::NoHead), |_| Ok(self.replay))
    }
}

/// Feeds the events of an incident to the state that they began with, and compares as [`replay()`] does.
///
/// # Errors
///
/// [`ReplayError`] when they cannot be replayed.
pub fn replay_incident(incident: &Incident) -> Result<Replay, ReplayError> {
    let mut player = Player { controller: incident.controller.clone(), answer: None };
    let mut replay = Replay::default();
    for event in &incident.events()? {
        player.play(event, &mut replay)?;
    }
    Ok(replay)
}

#[derive(Debug)]
struct Player {
    controller: Controller,
    /// The answer to the last event, which the next line of the log should record.
    answer: Option<(u64, Decision)>,
}

impl Player {
    fn play(&mut self, event: &Event, replay: &mut Replay) -> Result<(), ReplayError> {
        if let Event::Decided(Decided { step, decision }) = event {
            replay.compare(*step, Some(decision.clone()), self.answer.take().map(|it| it.1));
            return Ok(());
        }
        if let Some((step, unlogged)) = self.answer.take() {
            replay.compare(step, None, Some(unlogged));
        }
        let step = step_of(event);
        self.controller.learn(event).map_err(|source| ReplayError::Event { step, source })?;
        self.answer = self.controller.decide(event).map(|it| (step, it));
        Ok(())
    }
}

impl Replay {
    fn compare(&mut self, step: u64, logged: Option<Decision>, replayed: Option<Decision>) {
        self.decisions += 1;
        if logged != replayed {
            self.mismatches.push(Mismatch { step, logged, replayed });
        }
    }
}

fn step_of(event: &Event) -> u64 {
    match event {
        Event::StepDone(it) => it.step,
        Event::StepFailed(it) => it.step,
        Event::BudgetChanged(it) => it.step,
        _ => 0,
    }
}
