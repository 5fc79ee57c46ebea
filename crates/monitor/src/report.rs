//! A report as JSON, as Markdown and as a table for the terminal.

use std::fmt::Write;

use plimsoll_types::EndReason;

use crate::source::sources_line;
use crate::table::{pairs, size};
use crate::text::{share, short, time, unit_of_length};
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

    /// Writes the report as Markdown, with links to the pictures in the same directory.
    pub fn to_markdown(&self) -> String {
        let job = self.job.as_deref().unwrap_or("unknown job");
        let mut text = format!("# Training report: {job}\n\n");
        for line in self.headlines() {
            let _ = writeln!(text, "{line}\n");
        }
        let _ = writeln!(text, "{}", self.opening());
        list(&mut text, "What would help most", &self.change_lines());
        table(&mut text, "Result", &self.result_rows());
        table(&mut text, "Memory", &self.memory_rows());
        text += &self.task_table();
        if !self.ranks.is_empty() {
            table(&mut text, "Ranks", &self.rank_rows());
        }
        text += "\n## Pictures\n\n![Loss and validation metric over the steps](training_curves.svg)\n\n\
                 ![Memory over the steps](memory_timeline.svg)\n\n\
                 ![Throughput, gradient norm and learning rate over the steps](step_curves.svg)\n";
        if 1 < self.tasks.len() {
            text += "\n![Loss of each task over the steps, and its metric over the baseline](task_comparison.svg)\n";
        }
        text += "\n## Adjustments\n\n";
        text += &self.adjustment_table();
        list(&mut text, "Data", &self.data);
        list(&mut text, "Deaths of the process that trained", &self.death_lines());
        list(&mut text, "Warnings", &self.warnings);
        list(&mut text, "Skipped files", &self.skipped_files);
        text
    }

    /// Writes the report as a table for the terminal, at the end of a run.
    pub fn to_table(&self) -> String {
        let rows = [self.result_rows(), self.memory_rows()].concat();
        let mut rows: Vec<_> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        rows.extend(self.tasks.iter().map(|it| (format!("task {}", it.name), task_line(it))));
        rows.extend(self.rank_rows());
        if !self.out_dir.is_empty() {
            rows.push(("report".to_owned(), format!("{}/training_report.md", self.out_dir.trim_end_matches('/'))));
        }
        let headlines: Vec<_> = self.headlines().collect();
        let gap = if headlines.is_empty() { "" } else { "\n\n" };
        headlines.join("\n") + gap + &pairs(&rows)
    }

    /// Returns what came of each task, with its name.
    pub(crate) fn task_lines(&self) -> Vec<[String; 2]> {
        self.tasks.iter().map(|it| [it.name.clone(), task_line(it)]).collect()
    }

    fn change_lines(&self) -> Vec<String> {
        self.changes.iter().map(|it| format!("`{}`: {} ({}).", it.setting, it.change, it.figure)).collect()
    }

    /// Returns a line for each death of the process.
    pub(crate) fn death_lines(&self) -> Vec<String> {
        self.restarts.iter().map(death_line).collect()
    }

    /// What is to be known first, one sentence or a few on each line.
    fn headlines(&self) -> impl Iterator<Item = &str> {
        self.verdict.iter().chain(&self.findings).map(String::as_str)
    }

    /// Writes a row for each task, or nothing where there is none.
    fn task_table(&self) -> String {
        let mut text = String::new();
        if self.tasks.is_empty() {
            return text;
        }
        text += "\n## Tasks\n\n| task | samples | last loss | weight | metric | value | baseline | ratio |\n\
                 |---|---:|---:|---:|---|---:|---:|---:|\n";
        for it in &self.tasks {
            let (name, metric) = (cell(&it.name), cell(it.metric_name.as_deref().unwrap_or("–")));
            let numbers = [it.loss, it.weight, it.metric, it.baseline, it.ratio].map(number);
            let [loss, weight, value, baseline, ratio] = numbers;
            let _ = writeln!(
                text,
                "| {name} | {} | {loss} | {weight} | {metric} | {value} | {baseline} | {ratio} |",
                it.samples
            );
        }
        text
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
        rows.extend(self.mates_kept.map(|it| ("batch mates", it.line())));
        rows.extend(self.validation_rows());
        rows.push(("time", time(self.seconds)));
        if 0 < self.samples_skipped {
            rows.push(("samples skipped", self.samples_skipped.to_string()));
        }
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

    fn adjustment_table(&self) -> String {
        if self.decisions.is_empty() {
            return "The knobs stayed as they were.\n".to_owned();
        }
        let mut text = "| after step | parameter | old | new | reason |\n|---:|---|---|---|---|\n".to_owned();
        for it in &self.decisions {
            let [parameter, from, to] = it.change(&self.unit_of_length, self.n_axes);
            let _ = writeln!(text, "| {} | {parameter} | {from} | {to} | {} |", it.step, cell(&it.reason));
        }
        text
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

fn number(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), short)
}

/// Writes a text that neither ends its cell nor its row.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn table(text: &mut String, title: &str, rows: &[(impl AsRef<str>, String)]) {
    let _ = write!(text, "\n## {title}\n\n| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {} | {} |", name.as_ref(), cell(value));
    }
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(text, "\n## {title}\n\n");
    for item in items {
        let _ = writeln!(text, "* {}", item.replace('\n', " "));
    }
}
