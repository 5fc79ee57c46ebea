//! A report as Markdown.

use std::fmt::Write;

use crate::report::number;
use crate::rows::ends;
use crate::text::{short, unit_of_length};
use crate::{Adjustment, EdgeSamples, SizeRate, TrainingReport};

impl TrainingReport {
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
        text += &self.sizes_table();
        text += &self.edges_table();
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

    fn change_lines(&self) -> Vec<String> {
        self.changes.iter().map(|it| format!("`{}`: {} ({}).", it.setting, it.change, it.figure)).collect()
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

    /// Writes a row for each size that ran, or nothing where no step was timed.
    fn sizes_table(&self) -> String {
        let row = |it: &SizeRate| {
            let rate = it.samples_per_second.map_or(String::new(), |it| format!(" ({} per second)", short(it)));
            format!("| {} | {} | {}{rate} |\n", it.patch_size, it.micro_batch_size, it.samples)
        };
        long_table("Throughput by size", "| edge | micro-batch size | samples |", &self.size_rates, row)
    }

    /// Writes a row for each shape that samples were padded or cut to, or nothing where there is none.
    fn edges_table(&self) -> String {
        let head = format!("| edge ({}) | samples |", cell(unit_of_length(&self.unit_of_length)));
        let row = |it: &EdgeSamples| format!("| {} | {} |\n", it.edge, it.samples);
        long_table("Samples by padded length or patch", &head, &self.edge_samples, row)
    }

    fn adjustment_table(&self) -> String {
        if self.decisions.is_empty() {
            return "The knobs stayed as they were.\n".to_owned();
        }
        let mut text = "| after step | parameter | old | new | reason |\n|---:|---|---|---|---|\n".to_owned();
        let row = |it: &Adjustment| {
            let [parameter, from, to] = it.change(&self.unit_of_length, self.n_axes);
            format!("| {} | {parameter} | {from} | {to} | {} |\n", it.step, cell(&it.reason))
        };
        add_rows(&mut text, &self.decisions, row);
        text
    }
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

/// Writes a table of numbers below a title, or nothing where it has no row.
fn long_table<T>(title: &str, head: &str, rows: &[T], row: impl Fn(&T) -> String) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rule = "---:|".repeat(head.matches('|').count() - 1);
    let mut text = format!("\n## {title}\n\n{head}\n|{rule}\n");
    add_rows(&mut text, rows, row);
    text
}

/// Writes rows, of many those at either end.
fn add_rows<T>(text: &mut String, rows: &[T], row: impl Fn(&T) -> String) {
    let (first, left_out, last) = ends(rows);
    text.extend(first.iter().map(&row));
    text.extend(left_out.map(|it| format!("| {it} |\n")));
    text.extend(last.iter().map(&row));
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(text, "\n## {title}\n\n");
    let (first, left_out, last) = ends(items);
    for item in first.iter().chain(&left_out).chain(last) {
        let _ = writeln!(text, "* {}", item.replace('\n', " "));
    }
}
