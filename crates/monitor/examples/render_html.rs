//! Writes the page of a log, to look at: `render_html LOG PAGE`.

use plimsoll_monitor::{History, RunFacts, TrainingReport, decode};

#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(log), Some(page)) = (arguments.next(), arguments.next()) else {
        return Err("name a log and the page to write".into());
    };
    let events = decode(&std::fs::read_to_string(log)?)?.events;
    let facts = RunFacts { seconds: 61.5, ..RunFacts::default() };
    let report = TrainingReport::new(&History::of(&events), facts.clone());
    std::fs::write(page, report.to_html(&History::of(&events), &facts, ""))?;
    Ok(())
}
