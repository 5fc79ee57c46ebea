//! Who is told what a run does: its terminal, and other tools.

use std::fs::File;
use std::io::{BufRead, BufReader};

use plimsoll_monitor::{Decoder, Progress, RunFacts, encode_into};
use plimsoll_train::{EVENTS_FILE, RunDir, TrainError};
use plimsoll_types::Event;

use crate::args::LogFormat;
use crate::display::Display;
use crate::event_file::EventFile;
use crate::report::facts::{FACTS_FILE, to_json};
use crate::say;
use crate::scrape::Scraped;
use crate::settings::Settings;
use crate::signals;

/// Everybody who is told.
pub(crate) struct Told {
    pub(crate) display: Display,
    /// The line of the last event, where standard output has them.
    line: Option<Vec<u8>>,
    scraped: Option<Scraped>,
    /// Nobody's any more, once it cannot be written.
    tensorboard: Option<EventFile>,
}

impl Told {
    /// Tells the terminal alone.
    pub(crate) fn new(log: LogFormat) -> Self {
        let line = (log == LogFormat::Json).then(Vec::new);
        Self { display: Display::new(log == LogFormat::Live), line, scraped: None, tensorboard: None }
    }

    /// Tells all that the settings ask for, and first keeps what the log does not say.
    pub(crate) fn first(
        run_dir: &RunDir,
        facts: &RunFacts,
        settings: &Settings,
        (log, scraped): (LogFormat, Option<Scraped>),
    ) -> anyhow::Result<Self> {
        signals::uncut(|| run_dir.write(FACTS_FILE, to_json(facts).as_bytes())).map_err(TrainError::from)?;
        let tensorboard = settings.monitor.tensorboard.then(|| EventFile::create(run_dir.path())).transpose()?;
        let mut told = Self { scraped, tensorboard, ..Self::new(log) };
        if let Some(head @ Event::RunStarted(start)) = &head(run_dir) {
            told.display.begin(start);
            told.tell_others(head);
        }
        Ok(told)
    }

    /// Tells an event.
    pub(crate) fn hear(&mut self, event: &Event, progress: &Progress) {
        self.display.show(event, progress);
        if let Some(line) = &mut self.line {
            line.clear();
            encode_into(line, event);
            say::lines(line);
        }
        self.tell_others(event);
    }

    fn tell_others(&mut self, event: &Event) {
        if let Some(scraped) = &self.scraped {
            scraped.hear(event);
        }
        if let Some(Err(error)) = self.tensorboard.as_mut().map(|it| it.hear(event)) {
            self.tensorboard = None;
            self.display.clear();
            eprintln!("warning: failed to {error}; the run goes on without");
        }
    }
}

/// Returns the head of the log of a run that goes on, which it does not log again.
fn head(run_dir: &RunDir) -> Option<Event> {
    let (file, mut line) = (File::open(run_dir.path().join(EVENTS_FILE)).ok()?, Vec::new());
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    Decoder::default().line(&line).ok()?
}
