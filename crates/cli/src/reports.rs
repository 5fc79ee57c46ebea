//! What a run leaves behind, besides its log and its checkpoints.

use plimsoll_monitor::{
    RunFacts, TrainingReport, batch_metrics, epoch_metrics, memory_timeline, task_comparison, training_curves,
};
use plimsoll_train::{Outcome, RunDir, RunDirError};

use crate::loading::Loaded;

/// Writes reports and pictures from the log, and returns the report.
pub(crate) fn write(
    run_dir: &RunDir,
    outcome: &Outcome,
    warnings: Vec<String>,
    skipped_files: Vec<String>,
    loaded: Loaded,
) -> Result<TrainingReport, RunDirError> {
    let events = run_dir.events()?;
    let facts = RunFacts {
        overhead_us_per_step: outcome.overhead.map(|it| it.median_us.total),
        loading_peak: loaded.peak,
        warnings,
        skipped_files,
        seconds: outcome.seconds,
        out_dir: run_dir.path().display().to_string(),
    };
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
