//! How many steps a log holds, over time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const STEP: &[u8] = b"{\"event\":\"step_done\"";

/// Reads a log as it grows, and as it is cut.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    seen: u64,
    /// The end of what was seen, which may hold the beginning of a line.
    rest: Vec<u8>,
    steps: u64,
    /// Moments in milliseconds, each with the steps that the log held from then on.
    pub(crate) history: Vec<(u64, u64)>,
}

impl Watch {
    pub(crate) fn new(run: &Path) -> Self {
        Self { path: run.join("events.jsonl"), seen: 0, rest: Vec::new(), steps: 0, history: vec![(now(), 0)] }
    }

    /// Looks again, and returns how many steps the log holds.
    pub(crate) fn look(&mut self) -> u64 {
        let before = self.steps;
        // A log that is missing or cannot be read now is one that has not grown.
        drop(self.read_on());
        if self.steps != before {
            self.history.push((now(), self.steps));
        }
        self.steps
    }

    fn read_on(&mut self) -> std::io::Result<()> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.seen {
            (self.seen, self.steps) = (0, 0);
            self.rest.clear();
        }
        file.seek(SeekFrom::Start(self.seen))?;
        let mut added = Vec::new();
        self.seen += file.read_to_end(&mut added)? as u64;
        self.rest.append(&mut added);
        let whole = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let lines = self.rest[..whole].split(|it| *it == b'\n');
        self.steps += lines.filter(|it| it.starts_with(STEP)).count() as u64;
        self.rest.drain(..whole);
        Ok(())
    }

    /// Returns what a fault at a moment cost: milliseconds until the log held more steps than before, and the steps
    /// that were done again; `None` where it never did.
    pub(crate) fn cost(&self, millis: u64) -> Option<(u64, u64)> {
        let before = self.history.iter().rfind(|it| it.0 <= millis)?.1;
        let after = || self.history.iter().filter(|it| millis < it.0);
        let recovered = after().find(|it| before < it.1)?;
        let lowest = after().take_while(|it| it.1 <= before).map(|it| it.1).min().unwrap_or(before);
        Some((recovered.0 - millis, before - lowest))
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(0))
}
