//! Draws the pictures of two runs that never happened, to look at: `render_report [DIRECTORY]`.

use std::path::PathBuf;

use plimsoll_monitor::{memory_timeline, training_curves};

#[path = "../tests/it/run.rs"]
mod run;

#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let runs = [("small", run::small()), ("long", run::long(600)), ("empty", Vec::new())];
    for (name, events) in runs {
        for (picture, plot) in [("curves", training_curves(&events)), ("memory", memory_timeline(&events))] {
            std::fs::write(directory.join(format!("monitor-{name}-{picture}.svg")), plot.svg)?;
            std::fs::write(directory.join(format!("monitor-{name}-{picture}.png")), plot.png)?;
        }
    }
    Ok(())
}
