//! Who is told what a run does: its terminal, and other tools.

use plimsoll_monitor::{Progress, RunFacts};
use plimsoll_train::{RunDir, TrainError};
use plimsoll_types::Event;

use crate::display::Display;
use crate::event_file::EventFile;
use crate::report::facts::{FACTS_FILE, to_json};
use crate::scrape::Scraped;
use crate::settings::Settings;
use crate::signals;

/// Everybody who is told.
pub(crate) struct Told {
    pub(crate) display: Display,
    scraped: Option<Scraped>,
    /// Nobody's any more, once it cannot be written.
    tensorboard: Option<EventFile>,
}

impl Told {
    /// Tells the terminal alone.
    pub(crate) fn new() -> Self {
        Self { display: Display::new(), scraped: None, tensorboard: None }
    }

    /// Tells all that the settings ask for, and first keeps what the log does not say.
    pub(crate) fn first(
        run_dir: &RunDir,
        facts: &RunFacts,
        settings: &Settings,
        scraped: Option<Scraped>,
    ) -> anyhow::Result<Self> {
        signals::uncut(|| run_dir.write(FACTS_FILE, to_json(facts).as_bytes())).map_err(TrainError::from)?;
        let tensorboard = settings.monitor.tensorboard.then(|| EventFile::create(run_dir.path())).transpose()?;
        Ok(Self { scraped, tensorboard, ..Self::new() })
    }

    /// Tells an event.
    pub(crate) fn hear(&mut self, event: &Event, progress: &Progress) {
        self.display.show(event, progress);
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
