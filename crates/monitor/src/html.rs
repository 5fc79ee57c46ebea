//! A report as one page of HTML that needs nothing else.

use std::fmt::Write;

use crate::history::History;
use crate::plots::{DARK, Inline, escaped, narrow_pictures, small_pictures, wide_pictures};
use crate::rows::ends;
use crate::text::{counted, share, short, time, unit_of_length};
use crate::{RunFacts, TrainingReport};

const STYLE: &str = include_str!("html.css");

impl TrainingReport {
    /// Writes the report as a page of HTML with its pictures inside, in light and in dark; `config` is the configuration of the
    /// run as it is shown.
    pub fn to_html(&self, history: &History, facts: &RunFacts, config: &str) -> String {
        let mut page = head(&format!("Training report: {}", self.job.as_deref().unwrap_or("unknown job")));
        self.write_head(&mut page, history);
        page += "<h2>Over the run</h2>\n";
        figures(&mut page, "wide", &wide_pictures(history, facts));
        figures(&mut page, "narrow", &narrow_pictures(history, facts));
        page += "<h2>Steps and sizes</h2>\n";
        figures(&mut page, "grid", &small_pictures(history));
        self.write_tables(&mut page, config);
        page + "</body>\n</html>\n"
    }

    /// Writes what is to be known first.
    fn write_head(&self, page: &mut String, history: &History) {
        let _ = writeln!(page, "<p class=\"quiet\">{}</p>", escaped(&self.opening()));
        if !self.ranks.is_empty() {
            let n = self.ranks.len();
            let _ = writeln!(
                page,
                "<p class=\"quiet\">The pictures and what is said of memory are of rank 0 of {n}; each rank has a row below.</p>"
            );
        }
        if let Some(verdict) = &self.verdict {
            let _ = writeln!(page, "<p class=\"verdict\">{}</p>", marked(verdict));
        }
        *page += "<dl class=\"cards\">\n";
        for (name, value, is_bad) in self.cards(history) {
            let class = if is_bad { " class=\"bad\"" } else { "" };
            let _ = writeln!(page, "<div><dt>{name}</dt><dd{class}>{}</dd></div>", escaped(&value));
        }
        *page += "</dl>\n";
        self.write_changes(page);
        if 1 < self.steps_per_point {
            let n = self.steps_per_point;
            let _ = writeln!(
                page,
                "<p class=\"quiet\">Of up to {n} steps each the curves show the lowest and the highest.</p>"
            );
        }
        for it in self.findings.iter().chain(&self.warnings) {
            let _ = writeln!(page, "<p>{}</p>", marked(it));
        }
    }

    fn write_changes(&self, page: &mut String) {
        if self.changes.is_empty() {
            return;
        }
        *page += "<h3>What would help most</h3>\n<ol>\n";
        for it in &self.changes {
            let (setting, change, figure) = (escaped(&it.setting), escaped(&it.change), escaped(&it.figure));
            let _ = writeln!(page, "<li><code>{setting}</code>: {change} ({figure}).</li>");
        }
        *page += "</ol>\n";
    }

    /// Returns the figures that say whether all went well, and whether each is bad.
    fn cards(&self, history: &History) -> Vec<(&'static str, String, bool)> {
        let (dash, planned) = (|| "–".to_owned(), self.planned_padding);
        let ([failures, ended], above) = (history.incidents.steps_that_failed(), self.bounds_exceeded);
        // The last death has no restart where nobody took the run up again.
        let deaths = ended.max(self.restarts.len() as u64);
        let kinds = [(failures, format!("{failures} out of memory")), (deaths, counted(deaths, "death"))];
        let failed: Vec<_> = kinds.into_iter().filter(|it| 0 < it.0).map(|it| it.1).collect();
        let failed = if failed.is_empty() { "none".to_owned() } else { failed.join(", ") };
        vec![
            ("budget used, median", self.steady_budget_share.map_or_else(dash, share), false),
            (
                "padding",
                self.work.map_or_else(dash, |it| it.against(planned)),
                self.work.is_some_and(|it| it.is_above(planned)),
            ),
            ("failures", failed, 0 < failures + deaths),
            ("peaks above their bound", above.to_string(), 0 < above),
            ("time lost", time_lost(self), 0.0 < self.undone_seconds),
            ("speed", speed(self), false),
        ]
    }

    fn write_tables(&self, page: &mut String, config: &str) {
        let owned = |rows: Vec<(&'static str, String)>| -> Vec<[String; 2]> {
            rows.into_iter().map(|(name, value)| [name.to_owned(), value]).collect()
        };
        table(page, "Result", &[], &owned(self.result_rows()));
        table(page, "Memory", &[], &owned(self.memory_rows()));
        let adjustment = |it: &crate::Adjustment| {
            let [parameter, from, to] = it.change(&self.unit_of_length, self.n_axes);
            [it.step.to_string(), parameter, from, to, it.reason.clone()]
        };
        let adjustments: Vec<_> = self.decisions.iter().map(adjustment).collect();
        table(page, "Adjustments", &["after step", "parameter", "old", "new", "reason"], &adjustments);
        table(page, "Tasks", &[], &self.task_lines());
        let device = self.device.iter().map(|it| ["device".to_owned(), it.clone()]);
        let ranks = self.rank_rows().into_iter().map(|(name, line)| [name, line]);
        table(page, "Devices and ranks", &[], &device.chain(ranks).collect::<Vec<_>>());
        let data: Vec<_> = self.data.iter().map(|it| [it.clone()]).collect();
        table(page, "Data", &[], &data);
        let deaths: Vec<_> = self.death_lines().into_iter().map(|it| [it]).collect();
        table(page, "Deaths of the process that trained", &[], &deaths);
        let skipped: Vec<_> = self.skipped_files.iter().map(|it| [it.clone()]).collect();
        table(page, "Skipped files", &[], &skipped);
        if !config.is_empty() {
            let lines: Vec<_> = config.lines().map(escaped).collect();
            let _ = write!(page, "<h2>Configuration</h2>\n<pre>{}</pre>\n", lines.join("\n"));
        }
    }
}

/// Begins a page with its title.
pub(crate) fn head(title: &str) -> String {
    let (title, dark) = (escaped(title), dark());
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{dark}}}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// Writes pictures as figures; those of a grid have a heading, the others a title of their own.
pub(crate) fn figures(page: &mut String, class: &str, pictures: &[Inline]) {
    let _ = writeln!(page, "<div class=\"{class}\">");
    for Inline { title, svg } in pictures {
        let heading = if class == "grid" { format!("<h3>{title}</h3>\n") } else { String::new() };
        let label = format!("<svg role=\"img\" aria-label=\"{title}\" ");
        let _ = write!(page, "<figure>\n{heading}{}</figure>\n", svg.replacen("<svg ", &label, 1));
    }
    *page += "</div>\n";
}

/// Writes a table, or nothing where it has no row; of a long one its ends.
fn table<const N: usize>(page: &mut String, title: &str, names: &[&str], rows: &[[String; N]]) {
    if rows.is_empty() {
        return;
    }
    let (first, left_out, last) = ends(rows);
    let _ = write!(page, "<h2>{title}</h2>\n<div class=\"scroll\"><table>\n");
    if !names.is_empty() {
        row(page, "th", names);
    }
    for it in first {
        row(page, "td", it);
    }
    if let Some(told) = left_out {
        let _ = writeln!(page, "<tr><td colspan=\"{N}\">{told}</td></tr>");
    }
    for it in last {
        row(page, "td", it);
    }
    *page += "</table></div>\n";
}

/// Writes a row of a table, each cell in an element of this name.
pub(crate) fn row(page: &mut String, element: &str, cells: &[impl AsRef<str>]) {
    *page += "<tr>";
    for it in cells {
        let _ = write!(page, "<{element}>{}</{element}>", escaped(it.as_ref()));
    }
    *page += "</tr>\n";
}

/// Writes a sentence with its settings, which are between backticks, as code; a backtick without its pair is text.
fn marked(text: &str) -> String {
    let mut rest = text;
    let mut page = String::new();
    while let Some((before, (code, after))) = rest.split_once('`').and_then(|(a, it)| Some((a, it.split_once('`')?))) {
        let _ = write!(page, "{}<code>{}</code>", escaped(before), escaped(code));
        rest = after;
    }
    page + &escaped(rest)
}

/// Writes the rules that draw the colours of the pictures for a dark page.
fn dark() -> String {
    DARK.iter().fold(String::new(), |rules, (light, dark)| {
        let (light, dark) = (light.hex(), dark.hex());
        rules
            + &format!(
                "  svg [fill=\"{light}\"] {{ fill: {dark}; }}\n  svg [stroke=\"{light}\"] {{ stroke: {dark}; }}\n"
            )
    })
}

/// Writes what was lost of a run's time: steps that were done again, and waiting.
fn time_lost(report: &TrainingReport) -> String {
    let waited = report.waiting_seconds.unwrap_or(0.0);
    let lost = report.undone_seconds + waited;
    if lost <= 0.0 { "none".to_owned() } else { time(lost) }
}

/// Writes what was done in a second: real positions where samples are padded, else samples.
fn speed(report: &TrainingReport) -> String {
    if let Some(rate) = report.work.and_then(|it| it.real_positions_per_second) {
        return format!("{} {}/s", short(rate), unit_of_length(&report.unit_of_length));
    }
    report.samples_per_second.map_or("–".to_owned(), |it| format!("{} samples/s", short(it)))
}
