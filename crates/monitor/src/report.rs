//! A report as JSON, as rows of names and values, and as a table for the terminal.

use std::fmt::Write;

use plimsoll_types::EndReason;

use crate::source::sources_line;
use crate::table::{pairs, size};
use crate::text::{share, short, time, unit_of_length, wrapped};
use crate::{Restart, TaskReport, TrainingReport, Usage};

impl TrainingReport {
    /// Writes the report as indented JSON.
    ///
    /// # Panics
    ///
    /// Never: a report is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with text keys always serialises") + "\n"
    }

    /// Writes the report as a table for a terminal of so many columns, at the end of a run.
    pub fn to_table(&self, width: usize) -> String {
        let rows = [self.result_rows(), self.memory_rows()].concat();
        let mut rows: Vec<_> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        rows.extend(self.tasks.iter().map(|it| (format!("task {}", it.name), task_line(it))));
        rows.extend(self.rank_rows());
        if !self.out_dir.is_empty() {
            rows.push(("report".to_owned(), format!("{}/training_report.md", self.out_dir.trim_end_matches('/'))));
        }
        let headlines: Vec<_> = self.headlines().flat_map(|it| wrapped(it, width)).collect();
        let gap = if headlines.is_empty() { "" } else { "\n\n" };
        headlines.join("\n") + gap + &pairs(&rows, width)
    }

    /// Returns what came of each task, with its name.
    pub(crate) fn task_lines(&self) -> Vec<[String; 2]> {
        self.tasks.iter().map(|it| [it.name.clone(), task_line(it)]).collect()
    }

    /// Returns a line for each death of the process.
    pub(crate) fn death_lines(&self) -> Vec<String> {
        self.restarts.iter().map(death_line).collect()
    }

    /// What is to be known first, one sentence or a few on each line.
    pub(crate) fn headlines(&self) -> impl Iterator<Item = &str> {
        self.verdict.iter().chain(&self.findings).map(String::as_str)
    }

    /// Returns a row for each rank, and what they have waited for each other, where there are several.
    pub(crate) fn rank_rows(&self) -> Vec<(String, String)> {
        let rows = self.ranks.iter().map(|it| (format!("rank {}", it.rank), it.line()));
        let waited =
            self.waiting_for_ranks.map(|it| ("waiting for ranks".to_owned(), format!("{} of the steps", share(it))));
        rows.chain(waited).collect()
    }

    pub(crate) fn opening(&self) -> String {
        let end = match self.end {
            Some(EndReason::Completed) => "was completed in",
            Some(EndReason::StoppedEarly) => "ended early, since its validations got no better, after",
            Some(EndReason::Interrupted) => "was interrupted after",
            None => "had not ended after",
        };
        let device = self.device.as_deref().unwrap_or("an unknown device");
        let nothing = if self.steps + self.steps_given_up == 0 { ", and no step was done" } else { "" };
        format!("The run on {device} {end} {}{nothing}.", time(self.seconds))
    }

    pub(crate) fn result_rows(&self) -> Vec<(&'static str, String)> {
        let given_up = match self.steps_given_up {
            0 => String::new(),
            n => format!(", {n} given up"),
        };
        let rate = self.samples_per_second.map_or(String::new(), |it| format!(" ({} per second)", short(it)));
        let mut rows = vec![
            ("steps", format!("{}{given_up}", self.steps)),
            ("epochs", self.epochs.to_string()),
            ("samples seen", format!("{}{rate}", self.samples_seen)),
        ];
        rows.extend(
            self.work.map(|it| ("real work", it.line(unit_of_length(&self.unit_of_length), self.planned_padding))),
        );
        if !self.sources.is_empty() {
            rows.push(("sources", sources_line(&self.sources)));
        }
        rows.extend(self.supply.map(|it| ("look-ahead buffer", it.buffer_line())));
        rows.extend(self.supply.map(|it| ("reading ahead", it.waiting_line())));
        rows.extend(self.mates_kept.map(|it| ("batch mates", it.line())));
        rows.extend(self.validation_rows());
        rows.push(("time", time(self.seconds)));
        if 0 < self.samples_skipped {
            rows.push(("samples skipped", self.samples_skipped.to_string()));
        }
        rows.extend(self.dropped.map(|it| ("samples dropped", it.line())));
        if 0 < self.skipped {
            rows.push(("files skipped", self.skipped.to_string()));
        }
        rows
    }

    /// Returns the best validation and the last with their checkpoints, or one row where they are the same.
    fn validation_rows(&self) -> Vec<(&'static str, String)> {
        let (Some(name), Some(last)) = (&self.metric_name, &self.last_validation) else {
            return vec![("last validation", "none".to_owned())];
        };
        let best = self.best_validation.as_ref();
        let mut rows = Vec::new();
        rows.extend(best.filter(|it| *it != last).map(|it| ("best validation", it.text(name))));
        let is_best = if best == Some(last) { ", the best so far" } else { "" };
        rows.push(("last validation", last.text(name) + is_best));
        rows.extend(self.test.as_ref().map(|it| ("test of the best", it.text(name))));
        rows.extend(best.and_then(|it| it.checkpoint.clone()).map(|it| ("best checkpoint", it)));
        rows.extend(self.last_checkpoint.clone().map(|it| ("last checkpoint", it)));
        rows
    }

    pub(crate) fn memory_rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("capacity", size(self.capacity_bytes)),
            ("budget", size(self.budget_bytes)),
            ("peak", self.peak()),
            ("average peak of a step", size(self.usage.average_peak_bytes)),
            ("in use after the last step", self.current()),
            (
                "steady state",
                self.steady_budget_share.map_or("–".to_owned(), |it| format!("{:.1} % of the budget", 100.0 * it)),
            ),
            ("predicted peaks", self.foreseen.map_or("–".to_owned(), |it| it.line())),
            ("adjustments", self.adjustment_counts()),
            ("out-of-memory recoveries", self.oom_recoveries.to_string()),
            ("overhead per step", self.overhead_us_per_step.map_or("–".to_owned(), |it| short(it) + " µs")),
        ];
        rows.extend(self.restart_row());
        if 0 < self.bounds_exceeded {
            let in_validations = match self.bounds_exceeded_in_validations {
                0 => String::new(),
                n => format!(", {n} of them in validations"),
            };
            rows.push(("peaks above their bound", format!("{}{in_validations}", self.bounds_exceeded)));
        }
        if self.loading_peak_bytes.is_some() {
            rows.push(("peak while loading", size(self.loading_peak_bytes)));
        }
        rows
    }

    /// Returns how often another process took the run up after a death, and the steps that were done again.
    fn restart_row(&self) -> Option<(&'static str, String)> {
        let (n, undone) = (self.restarts.len(), self.undone_steps);
        let took =
            if 0.0 < self.undone_seconds { format!(", {} of work", time(self.undone_seconds)) } else { String::new() };
        match (n, undone) {
            (0, 0) => None,
            (0, _) => Some(("steps done again", format!("{undone}{took}"))),
            _ => Some(("restarts", format!("{n}, for which {undone} steps were done again{took}"))),
        }
    }

    /// Returns the highest mark, with what made it.
    fn peak(&self) -> String {
        let Usage { training_peak_bytes: training, validation_peak_bytes: validation, .. } = self.usage;
        match (training, validation) {
            (Some(training), Some(validation)) => {
                format!("{}: training {training}, validation {validation}", size(self.peak_bytes))
            }
            _ => size(self.peak_bytes),
        }
    }

    fn current(&self) -> String {
        let reserved = self.usage.current_reserved_bytes.map_or_else(String::new, |it| format!(", {it} reserved"));
        size(self.usage.current_bytes) + &reserved
    }

    fn adjustment_counts(&self) -> String {
        let of = format!("{} up, {} down", self.increases, self.decreases);
        if self.adjustments == 0 { "0".to_owned() } else { format!("{}: {of}", self.adjustments) }
    }
}

fn death_line(it: &Restart) -> String {
    format!("{}; the next one began at step {} and did {} steps again", it.death, it.step, it.undone_steps)
}

/// Writes what came of a task in one line.
fn task_line(task: &TaskReport) -> String {
    let mut line = format!("{} samples, last loss {}", task.samples, number(task.loss));
    if let (Some(name), Some(metric), Some(baseline)) = (&task.metric_name, task.metric, task.baseline) {
        let _ = write!(line, ", {name} {}, baseline {}", short(metric), short(baseline));
        let _ = task.ratio.map_or(Ok(()), |it| write!(line, " (ratio {})", short(it)));
    }
    line
}

pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), short)
}
