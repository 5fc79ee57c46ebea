//! What a run leaves behind, besides its log and its checkpoints.

use std::fs;

use plimsoll_monitor::{
    Restart, RunFacts, StepSettings, TrainingReport, batch_metrics, epoch_metrics, memory_timeline, task_comparison,
    training_curves,
};
use plimsoll_train::{Outcome, PROCESSES_FILE, Process, RunDir, RunDirError, UNDONE_FILE, Why};
use plimsoll_types::Event;

use crate::loading::Loaded;

/// Gathers what the log does not say.
pub(crate) fn facts(
    run_dir: &RunDir,
    outcome: &Outcome,
    step_settings: StepSettings,
    warnings: Vec<String>,
    skipped_files: Vec<String>,
    loaded: Loaded,
) -> RunFacts {
    RunFacts {
        overhead_us_per_step: outcome.overhead.map(|it| it.median_us.total),
        waiting: outcome.overhead.map(|it| (it.waiting.seconds, it.waiting.ratio)),
        loading_peak: loaded.peak,
        step_settings,
        restarts: restarts(run_dir),
        undone_seconds: undone_seconds(run_dir),
        warnings,
        skipped_files,
        seconds: outcome.seconds,
        out_dir: run_dir.path().display().to_string(),
    }
}

/// Returns the deaths that other processes of the run have noted; what cannot be read is left out.
fn restarts(run_dir: &RunDir) -> Vec<Restart> {
    let text = fs::read_to_string(run_dir.path().join(PROCESSES_FILE)).unwrap_or_default();
    let processes = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let restart = |Process { step, why, undone_steps, .. }: Process| match why {
        Why::AfterDeath { death } => Some(Restart { step, death, undone_steps }),
        Why::Started | Why::Resumed => None,
    };
    processes.filter_map(restart).collect()
}

/// Returns what the steps took that were undone because a process died or a checkpoint was damaged.
fn undone_seconds(run_dir: &RunDir) -> f64 {
    let text = fs::read_to_string(run_dir.path().join(UNDONE_FILE)).unwrap_or_default();
    let seconds =
        |line| if let Ok(Event::StepDone(done)) = serde_json::from_str(line) { Some(done.seconds) } else { None };
    // Without any, the sum would be -0.
    text.lines().filter_map(seconds).fold(0.0, |sum, it| sum + it)
}

/// Writes reports and pictures from the log, and returns the report.
pub(crate) fn write(run_dir: &RunDir, outcome: &Outcome, facts: RunFacts) -> Result<TrainingReport, RunDirError> {
    let events = run_dir.events()?;
    let report = TrainingReport::new(&events, facts);
    run_dir.write("batch_metrics.json", batch_metrics(&events).as_bytes())?;
    run_dir.write("epoch_metrics.json", epoch_metrics(&events).as_bytes())?;
    run_dir.write("training_report.json", report.to_json().as_bytes())?;
    run_dir.write("training_report.md", report.to_markdown().as_bytes())?;
    let tasks = task_comparison(&events).map(|plot| ("task_comparison", plot));
    let plots = [("training_curves", training_curves(&events)), ("memory_timeline", memory_timeline(&events))];
    for (name, plot) in plots.into_iter().chain(tasks) {
        run_dir.write(&format!("{name}.svg"), plot.svg.as_bytes())?;
        run_dir.write(&format!("{name}.png"), &plot.png)?;
    }
    if let Some(overhead) = outcome.overhead {
        run_dir.write("overhead.json", overhead.to_json().as_bytes())?;
    }
    Ok(report)
}
