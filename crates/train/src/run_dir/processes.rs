//! Who worked on a run: the lines of `processes.jsonl`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use plimsoll_probe::OomKills;
use serde::{Deserialize, Serialize};

use super::{RunDirError, io_error};

/// One line for each process that worked on a run, inside its directory.
pub const PROCESSES_FILE: &str = "processes.jsonl";

/// A process that worked on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number, from 1.
    pub process: u64,
    /// Its id in the operating system.
    pub pid: u32,
    /// The step that it began with.
    pub step: u64,
    /// Why it began.
    #[serde(flatten)]
    pub why: Why,
    /// Steps in the log that it has to do again.
    pub undone_steps: u64,
    /// The machine of each rank, where ranks are processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// How often the kernel had killed on its own machine for want of memory, where ranks are processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<OomKills>,
}

/// Why a process began to work on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Why {
    /// The run is new.
    Started,
    /// Somebody asked for the run to go on.
    Resumed {
        /// How the process before it ended, where that was not in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        death: Option<String>,
    },
    /// The process before it was killed.
    AfterDeath {
        /// By what.
        death: String,
    },
}

/// Returns the last process that worked on a run, or as one of its ranks where the directory is a rank's own.
pub fn last_process(run_dir: &Path) -> Option<Process> {
    let notes = fs::read(run_dir.join(PROCESSES_FILE)).unwrap_or_default();
    notes.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
}

/// Appends the line of this process, with what is known of its machine and the others' where ranks are processes.
pub(super) fn note(
    run_dir: &Path,
    (step, why, undone_steps): (u64, Why, u64),
    (machines, oom_kills): (&[String], Option<OomKills>),
) -> Result<(), RunDirError> {
    let path = run_dir.join(PROCESSES_FILE);
    let before = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        before => before.map_err(|source| io_error("read", &path, source))?,
    };
    // A line that a kill cut short stays a line.
    let gap = if before.last().is_some_and(|it| *it != b'\n') { "\n" } else { "" };
    let n_before = before.split(|it| *it == b'\n').filter(|line| !line.is_empty()).count() as u64;
    let (process, pid, machines) = (n_before + 1, std::process::id(), machines.to_vec());
    let process = Process { process, pid, step, why, undone_steps, machines, oom_kills };
    let line = serde_json::to_string(&process).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"));
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let written = opened.and_then(|mut file| file.write_all(format!("{gap}{line}\n").as_bytes()));
    written.map_err(|source| io_error("write", &path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_adds_a_line_even_after_one_that_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let note = |step, why, undone_steps| note(folder.path(), (step, why, undone_steps), (&[], None)).unwrap();
        note(0, Why::Started, 0);
        let path = folder.path().join(PROCESSES_FILE);
        let first = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{first}{{\"proc")).unwrap();
        note(8, Why::AfterDeath { death: "SIGKILL".to_owned() }, 3);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let pid = std::process::id();
        assert_eq!(lines[0], format!(r#"{{"process":1,"pid":{pid},"step":0,"why":"started","undone_steps":0}}"#));
        let third: Process = serde_json::from_str(lines[2]).unwrap();
        assert_eq!((third.process, third.step, third.undone_steps), (3, 8, 3));
        assert_eq!(third.why, Why::AfterDeath { death: "SIGKILL".to_owned() });
        note(8, Why::Resumed { death: None }, 0);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("\"why\":\"resumed\",\"undone_steps\":0}\n"), "{text}");
        assert_eq!(last_process(folder.path()).unwrap().why, Why::Resumed { death: None });
    }
}
