//! What is made of a log: reports, metrics and pictures.

use std::fs;
use std::path::Path;

use plimsoll_files::write_whole;
use plimsoll_monitor::{
    RunFacts, TrainingReport, batch_metrics, epoch_metrics, memory_timeline, step_curves, task_comparison,
    training_curves,
};
use plimsoll_train::{CONFIG_FILE, Outcome, RunDir, RunDirError};
use plimsoll_types::Event;

use super::facts::{FACTS_FILE, to_json, with_others};

/// Writes what a run leaves behind, besides its log and its checkpoints, and returns the report.
pub(crate) fn of_run(run_dir: &RunDir, outcome: &Outcome, facts: RunFacts) -> Result<TrainingReport, RunDirError> {
    let (out, events) = (run_dir.path(), run_dir.events()?);
    run_dir.write(FACTS_FILE, to_json(&facts).as_bytes())?;
    if let Some(overhead) = outcome.overhead {
        run_dir.write("overhead.json", overhead.to_json().as_bytes())?;
    }
    let config = fs::read_to_string(out.join(CONFIG_FILE)).unwrap_or_default();
    write(out, &events, &with_others(facts, out), &config)
}

/// Writes reports, metrics and pictures of a run into a folder, and returns the report.
pub(crate) fn write(
    folder: &Path,
    events: &[Event],
    facts: &RunFacts,
    config: &str,
) -> Result<TrainingReport, RunDirError> {
    let report = TrainingReport::new(events, facts.clone());
    for (name, content) in [
        ("batch_metrics.json", batch_metrics(events)),
        ("epoch_metrics.json", epoch_metrics(events)),
        ("training_report.json", report.to_json()),
        ("training_report.md", report.to_markdown()),
        ("training_report.html", report.to_html(events, facts, config)),
    ] {
        write_file(&folder.join(name), content.as_bytes())?;
    }
    let tasks = task_comparison(events).map(|plot| ("task_comparison", plot));
    let plots = [
        ("training_curves", training_curves(events)),
        ("step_curves", step_curves(events)),
        ("memory_timeline", memory_timeline(events, facts)),
    ];
    for (name, plot) in plots.into_iter().chain(tasks) {
        write_file(&folder.join(format!("{name}.svg")), plot.svg.as_bytes())?;
        write_file(&folder.join(format!("{name}.png")), &plot.png)?;
    }
    Ok(report)
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), RunDirError> {
    write_whole(path, content).map_err(|source| RunDirError::Io { action: "write", path: path.to_owned(), source })
}
