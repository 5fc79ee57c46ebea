//! What a run directory holds, whole or not.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plimsoll_monitor::{ComparedRun, History, RunFacts};
use plimsoll_train::{CONFIG_FILE, EVENTS_FILE, RunDir, read_log_with};
use plimsoll_types::Event;

use super::facts;
use crate::exit::{UserError, user_error};
use crate::load::flat;

/// What is known of a run, and what is to be known of that.
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    /// What its events come to.
    pub(crate) history: History,
    pub(crate) facts: RunFacts,
    /// The configuration as it was written, or nothing.
    pub(crate) config: String,
    settings: BTreeMap<String, String>,
    /// Sentences without the name of the run.
    pub(crate) notes: Vec<String>,
}

impl Recorded {
    /// Reads a run directory, and gives each event to whoever asks; what is missing beside the log is noted.
    pub(super) fn read(path: &Path, hear: &mut dyn FnMut(&Event)) -> Result<Self, UserError> {
        let (history, truncated) = log(path, hear)?;
        let mut notes = Vec::new();
        notes.extend(state(path, &history, truncated));
        let mut lack = |problem: String, without: &str| notes.push(format!("{problem}; {without}"));
        let facts = facts::read(path).unwrap_or_else(|problem| {
            lack(problem, "without it the report does not say who chose the sizes, nor what was waited for");
            RunFacts::default()
        });
        let facts = facts::with_others(facts, path);
        let facts = if 0.0 < facts.seconds { facts } else { RunFacts { seconds: history.seconds(), ..facts } };
        let config = fs::read_to_string(path.join(CONFIG_FILE)).unwrap_or_default();
        let settings = flat(&config).unwrap_or_else(|error| {
            lack(error.to_string(), "its settings are not shown");
            BTreeMap::new()
        });
        if config.is_empty() {
            lack(format!("there is no {CONFIG_FILE}"), "its settings are not shown");
        }
        Ok(Self { path: path.to_owned(), history, facts, config, settings, notes })
    }

    /// Returns what is compared with others.
    pub(super) fn compared(self) -> ComparedRun {
        let name = self.path.display().to_string();
        let run = ComparedRun::new(name, self.history, self.facts, self.settings);
        ComparedRun { notes: self.notes, ..run }
    }
}

/// Refuses what is no run directory.
pub(super) fn check(path: &Path) -> Result<(), UserError> {
    let wrong = |what: &str| wrong(path, what);
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(wrong("there is no such folder")),
        Err(error) => Err(wrong(&error.to_string())),
        Ok(it) if !it.is_dir() => Err(wrong("it is a file; name the run directory that it lies in")),
        Ok(_) => Ok(()),
    }
}

/// Whether a folder holds something, and no log of a run.
pub(super) fn is_foreign(path: &Path) -> bool {
    RunDir::is_occupied(path) && !path.join(EVENTS_FILE).is_file()
}

/// Refuses a folder without a log.
pub(super) fn no_log(run: &Path) -> UserError {
    wrong(run, "it is no run directory: it holds no `events.jsonl`")
}

/// Refuses a log that is not that of a run.
pub(super) fn headless(run: &Path) -> UserError {
    wrong(run, "its `events.jsonl` does not begin with `run_started`, as that of a run does")
}

fn wrong(run: &Path, what: &str) -> UserError {
    user_error(format!("read the run {}: {what}", run.display()))
}

/// Reads the log of a run directory, which must have begun; returns whether its last line is cut short, too.
fn log(run: &Path, hear: &mut dyn FnMut(&Event)) -> Result<(History, bool), UserError> {
    check(run)?;
    if !run.join(EVENTS_FILE).is_file() {
        return Err(no_log(run));
    }
    let (mut history, mut begins) = (History::default(), None);
    let truncated = read_log_with(run, &mut |event| {
        begins.get_or_insert(matches!(event, Event::RunStarted(_)));
        history.hear(&event);
        hear(&event);
    });
    let truncated = truncated.map_err(|error| user_error(error.to_string()))?;
    match begins {
        None => Err(wrong(run, "its `events.jsonl` is empty: the run had not begun")),
        Some(true) => Ok((history, truncated)),
        Some(false) => Err(headless(run)),
    }
}

/// Says so where there may be more to come, or something is missing.
fn state(run: &Path, history: &History, truncated: bool) -> Option<String> {
    if RunDir::is_being_written(run) {
        return Some("it is being written; what is whole by now is used".to_owned());
    }
    if truncated {
        return Some("the last line of its log is cut short, and left out".to_owned());
    }
    (!history.has_ended()).then(|| "its process ended before the run did".to_owned())
}
