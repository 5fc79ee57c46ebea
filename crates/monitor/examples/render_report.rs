//! Draws the pictures of runs that never happened and of plans that nobody made, to look at:
//! `render_report [DIRECTORY]`.

use std::path::{Path, PathBuf};

use plimsoll_monitor::{
    History, Plot, RankReport, Restart, RunFacts, TrainingReport, memory_timeline, plan_heat_map, training_curves,
};

#[path = "../tests/it/plan.rs"]
mod plan;
#[path = "../tests/it/run.rs"]
mod run;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let runs =
        [("small", run::small()), ("long", run::long(600)), ("settled", run::settled(400)), ("empty", Vec::new())];
    for (name, events) in runs {
        write(&directory, &format!("{name}-curves"), &training_curves(&History::of(&events)))?;
        write(&directory, &format!("{name}-memory"), &memory_timeline(&History::of(&events), &RunFacts::default()))?;
    }
    write_page(&directory)?;
    let plans = [
        ("empty", plan::empty()),
        ("single", plan::single()),
        ("small", plan::small()),
        ("ladder", plan::ladder()),
        ("large", plan::large()),
    ];
    plans.iter().try_for_each(|(name, plan)| write(&directory, &format!("{name}-plan"), &plan_heat_map(plan)))
}

/// Writes the page of a run of two ranks that died twice.
#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn write_page(directory: &Path) -> std::io::Result<()> {
    let events = run::settled(400);
    let death = |step| Restart { step, death: "killed by SIGKILL".into(), undone_steps: 30 };
    let undone = [150, 260].into_iter().flat_map(|from| from..from + 30);
    let facts = RunFacts {
        restarts: vec![death(150), death(260)],
        undone: undone.map(|it| run::step(it, run::knobs(48, 7)).into()).collect(),
        waiting: Some((21.0, 0.21)),
        waiting_for_ranks: Some((9.0, 0.09)),
        other_ranks: vec![RankReport::new(1, &History::of(&events))],
        seconds: 115.0,
        ..RunFacts::default()
    };
    let page = TrainingReport::new(&History::of(&events), facts.clone()).to_html(
        &History::of(&events),
        &facts,
        "[train]\nsteps = 400\n",
    );
    write(directory, "undone-memory", &memory_timeline(&History::of(&events), &facts))?;
    std::fs::write(directory.join("monitor-undone.html"), page)
}

#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn write(directory: &Path, name: &str, plot: &Plot) -> std::io::Result<()> {
    std::fs::write(directory.join(format!("monitor-{name}.svg")), &plot.svg)?;
    std::fs::write(directory.join(format!("monitor-{name}.png")), plot.png())
}
