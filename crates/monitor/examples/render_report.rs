//! Draws the pictures of runs that never happened and of plans that nobody made, to look at:
//! `render_report [DIRECTORY]`.

use std::path::{Path, PathBuf};

use plimsoll_monitor::{Plot, RunFacts, memory_timeline, plan_heat_map, training_curves};

#[path = "../tests/it/plan.rs"]
mod plan;
#[path = "../tests/it/run.rs"]
mod run;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let runs =
        [("small", run::small()), ("long", run::long(600)), ("settled", run::settled(400)), ("empty", Vec::new())];
    for (name, events) in runs {
        write(&directory, &format!("{name}-curves"), &training_curves(&events))?;
        write(&directory, &format!("{name}-memory"), &memory_timeline(&events, &RunFacts::default()))?;
    }
    let plans = [
        ("empty", plan::empty()),
        ("single", plan::single()),
        ("small", plan::small()),
        ("ladder", plan::ladder()),
        ("large", plan::large()),
    ];
    plans.iter().try_for_each(|(name, plan)| write(&directory, &format!("{name}-plan"), &plan_heat_map(plan)))
}

#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn write(directory: &Path, name: &str, plot: &Plot) -> std::io::Result<()> {
    std::fs::write(directory.join(format!("monitor-{name}.svg")), &plot.svg)?;
    std::fs::write(directory.join(format!("monitor-{name}.png")), &plot.png)
}
