//! `plimsoll replay`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_monitor::decode_bytes;
use plimsoll_train::{Incident, Mismatch, Replay};
use plimsoll_types::Decision;

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
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|error| user_error(format!("read {}: {error}", path.display())))?;
    if is_incident(path) {
        let incident = Incident::parse(&String::from_utf8_lossy(&bytes));
        let incident = incident.map_err(|error| user_error(format!("read {}: {error}", path.display())))?;
        beat.clear();
        println!("{}: at step {}, {}", path.display(), incident.step, incident.failure);
        let replay = plimsoll_train::replay_incident(&incident);
        return Ok(replay.map_err(|error| user_error(format!("{error} ({})", path.display())))?);
    }
    let log = decode_bytes(&bytes).map_err(|error| user_error(format!("read {}: {error}", path.display())))?;
    if log.truncated {
        beat.clear();
        println!("{}: the last line is cut short and left out", path.display());
    }
    let replay = plimsoll_train::replay(&log.events);
    Ok(replay.map_err(|error| user_error(format!("{error} ({})", path.display())))?)
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
