//! Who is told what a run does: its terminal, and other tools.

use plimsoll_monitor::Progress;
use plimsoll_types::Event;

use crate::display::Display;
use crate::event_file::EventFile;
use crate::scrape::Scraped;

/// Everybody who is told.
pub(crate) struct Told {
    pub(crate) display: Display,
    pub(crate) scraped: Option<Scraped>,
    /// Nobody's any more, once it cannot be written.
    pub(crate) tensorboard: Option<EventFile>,
}

impl Told {
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
