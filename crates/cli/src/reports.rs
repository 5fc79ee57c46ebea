//! What a run leaves behind, besides its log and its checkpoints.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_monitor::{
    RankReport, Restart, RunFacts, StepSettings, TrainingReport, batch_metrics, decode_bytes, epoch_metrics,
    memory_timeline, step_curves, task_comparison, training_curves,
};
use plimsoll_train::{
    CONFIG_FILE, EVENTS_FILE, Outcome, PROCESSES_FILE, Process, RunDir, RunDirError, UNDONE_FILE, Why, folders_of_ranks,
};
use plimsoll_types::{Event, StepDone};

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
        waiting_for_ranks: outcome.overhead.and_then(|it| it.ranks).map(|it| (it.seconds, it.ratio)),
        other_ranks: other_ranks(run_dir.path()),
        loading_peak: loaded.peak,
        step_settings,
        restarts: restarts(run_dir.path()),
        undone: undone(run_dir.path()),
        warnings,
        skipped_files,
        seconds: outcome.seconds,
        out_dir: run_dir.path().display().to_string(),
    }
}

/// Sums up the logs of the other ranks, of those too that took part for a time; what cannot be read is left out.
fn other_ranks(run_dir: &Path) -> Vec<RankReport> {
    let of_rank = |(rank, folder): (u32, PathBuf)| {
        let log = decode_bytes(&fs::read(folder.join(EVENTS_FILE)).ok()?).ok()?;
        Some(RankReport::new(rank, &log.events))
    };
    folders_of_ranks(run_dir).into_iter().filter_map(of_rank).collect()
}

/// Returns the deaths that other processes of the run have noted, whoever started them; what cannot be read is left out.
fn restarts(run_dir: &Path) -> Vec<Restart> {
    let text = fs::read_to_string(run_dir.join(PROCESSES_FILE)).unwrap_or_default();
    let processes = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let restart = |Process { step, why, undone_steps, .. }: Process| match why {
        Why::AfterDeath { death } | Why::Resumed { death: Some(death) } => Some(Restart { step, death, undone_steps }),
        Why::Started | Why::Resumed { death: None } => None,
    };
    processes.filter_map(restart).collect()
}

/// Returns the steps that were undone because a process died or a checkpoint was damaged; what cannot be read is left out.
fn undone(run_dir: &Path) -> Vec<StepDone> {
    let text = fs::read_to_string(run_dir.join(UNDONE_FILE)).unwrap_or_default();
    let step = |line| if let Ok(Event::StepDone(done)) = serde_json::from_str(line) { Some(done) } else { None };
    text.lines().filter_map(step).collect()
}

/// Writes reports and pictures from the log, and returns the report.
pub(crate) fn write(run_dir: &RunDir, outcome: &Outcome, facts: &RunFacts) -> Result<TrainingReport, RunDirError> {
    let events = run_dir.events()?;
    let report = TrainingReport::new(&events, facts.clone());
    run_dir.write("batch_metrics.json", batch_metrics(&events).as_bytes())?;
    run_dir.write("epoch_metrics.json", epoch_metrics(&events).as_bytes())?;
    run_dir.write("training_report.json", report.to_json().as_bytes())?;
    run_dir.write("training_report.md", report.to_markdown().as_bytes())?;
    let config = fs::read_to_string(run_dir.path().join(CONFIG_FILE)).unwrap_or_default();
    run_dir.write("training_report.html", report.to_html(&events, facts, &config).as_bytes())?;
    write_pictures(run_dir, &events, facts)?;
    if let Some(overhead) = outcome.overhead {
        run_dir.write("overhead.json", overhead.to_json().as_bytes())?;
    }
    Ok(report)
}

fn write_pictures(run_dir: &RunDir, events: &[Event], facts: &RunFacts) -> Result<(), RunDirError> {
    let tasks = task_comparison(events).map(|plot| ("task_comparison", plot));
    let plots = [
        ("training_curves", training_curves(events)),
        ("step_curves", step_curves(events)),
        ("memory_timeline", memory_timeline(events, facts)),
    ];
    for (name, plot) in plots.into_iter().chain(tasks) {
        run_dir.write(&format!("{name}.svg"), plot.svg.as_bytes())?;
        run_dir.write(&format!("{name}.png"), &plot.png)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_that_died_is_counted_whoever_started_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let why = [
            r#""why":"started""#,
            r#""why":"after_death","death":"killed by SIGKILL after step 10""#,
            r#""why":"resumed","death":"ended after step 77; nothing says of what""#,
            r#""why":"resumed""#,
        ];
        let lines = (1..)
            .zip(why)
            .map(|(n, why)| format!("{{\"process\":{n},\"pid\":7,\"step\":0,{why},\"undone_steps\":9}}\n"));
        fs::write(folder.path().join(PROCESSES_FILE), lines.collect::<String>()).unwrap();
        let deaths: Vec<_> = restarts(folder.path()).into_iter().map(|it| it.death).collect();
        assert_eq!(deaths, ["killed by SIGKILL after step 10", "ended after step 77; nothing says of what"]);
        assert!(undone(folder.path()).is_empty());
    }
}
