//! `plimsoll replay`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_train::{EVENTS_FILE, Incident, Mismatch, Replay, Replaying, read_log_file, read_log_with};
use plimsoll_types::{Decision, Event};

use crate::beat::Beat;
use crate::exit::user_error;

pub(crate) fn replay(logs: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut same = true;
    let beat = Beat::start("replaying");
    for (n_done, path) in logs.iter().enumerate() {
        beat.at("logs", n_done, logs.len());
        let replay = replay_one(path, &beat)?;
        beat.clear();
        same &= replay.mismatches.is_empty();
        for mismatch in &replay.mismatches {
            println!("{}", diff(mismatch));
        }
        let (n, differ) = (replay.decisions, replay.mismatches.len());
        println!("{}: {n} decisions, {differ} differ", path.display());
    }
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay_one(path: &Path, beat: &Beat) -> anyhow::Result<Replay> {
    let failed = |what: &dyn Display| user_error(format!("read {}: {what}", path.display()));
    if is_incident(path) {
        let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
        let incident = Incident::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| failed(&error))?;
        beat.clear();
        println!("{}: at step {}, {}", path.display(), incident.step, incident.failure);
        let replay = plimsoll_train::replay_incident(&incident);
        return Ok(replay.map_err(|error| user_error(format!("{error} ({})", path.display())))?);
    }
    let mut replaying = Replaying::default();
    let mut failure = None;
    let mut hear = |event: Event| {
        if failure.is_none() {
            failure = replaying.hear(&event).err();
        }
    };
    let read = match run_of(path) {
        Some(run) => read_log_with(run, &mut hear),
        None => read_log_file(path, &mut hear),
    };
    if read.map_err(|error| user_error(error.to_string()))? {
        beat.clear();
        println!("{}: the last line is cut short and left out", path.display());
    }
    let replay = failure.map_or_else(|| replaying.end(), Err);
    Ok(replay.map_err(|error| user_error(format!("{error} ({})", path.display())))?)
}

/// Returns the run directory of a log that has the name that a run gives it: it goes on in other files beside it.
fn run_of(path: &Path) -> Option<&Path> {
    let run = path.ends_with(EVENTS_FILE).then(|| path.parent())??;
    Some(if run.as_os_str().is_empty() { Path::new(".") } else { run })
}

/// An incident is one JSON document, a log one for each line.
fn is_incident(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "json")
}

fn diff(mismatch: &Mismatch) -> String {
    let shown =
        |decision: &Option<Decision>| decision.as_ref().map_or("no decision".to_owned(), |it| format!("{it:?}"));
    let Mismatch { step, logged, replayed } = mismatch;
    format!("step {step}\n  - {}\n  + {}", shown(logged), shown(replayed))
}
