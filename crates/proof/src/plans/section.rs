//! The sections of the report of `cargo xtask gpu-check`.

use std::fmt;

use plimsoll_predict::Dtype;
use serde::{Deserialize, Serialize};

use super::{ProductRun, Report, Sweep};
use crate::finder::Comparison;
use crate::median::median;

/// A part of the check, which runs in processes of its own for a time of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// What was measured.
    #[serde(flatten)]
    pub content: Content,
    /// What was not, each with the reason.
    pub left_out: Vec<String>,
}

/// What a section measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "section", content = "figures")]
pub enum Content {
    /// Memory as each observer sees it.
    Memory(Vec<Figure>),
    /// Plans against real steps, in each precision.
    Plans(Vec<Precision>),
    /// Many steps at the line.
    Line(Vec<ProductRun>),
    /// Memory that the device refused in the midst of a run.
    Shortage(Vec<ProductRun>),
    /// Another process on the device in the midst of a run.
    CoTenant(Vec<ProductRun>),
    /// Recompute where it is needed, everywhere, and nowhere.
    Recompute(Vec<ProductRun>),
    /// The chosen micro-batch against the fastest.
    Sweep(Vec<Sweep>),
    /// The finder against other tools' rules.
    Finder(Vec<Comparison>),
}

/// One quantity, as one observer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// When it was read.
    pub when: String,
    /// Who was asked.
    pub observer: String,
    /// What it means.
    pub quantity: String,
    /// The answer, or why there is none.
    pub answer: String,
}

/// Plans against real steps in one precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Precision {
    /// What passes compute in.
    pub dtype: Dtype,
    /// The figures.
    pub report: Report,
}

/// What a section comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether its targets are met; `None` where nothing was measured.
    pub is_met: Option<bool>,
    /// The figures that say so, as one fragment.
    pub says: String,
}

/// The least speed of the chosen micro-batch, as a part of the fastest.
const LEAST_SPEED: f64 = 0.9;

impl Section {
    /// Returns its title.
    pub fn title(&self) -> &'static str {
        match self.content {
            Content::Memory(_) => "Memory",
            Content::Plans(_) => "Plans against real steps",
            Content::Line(_) => "Steps at the line",
            Content::Shortage(_) => "A failure survived",
            Content::CoTenant(_) => "A co-tenant",
            Content::Recompute(_) => "Recompute per shape",
            Content::Sweep(_) => "The chosen micro-batch against a sweep",
            Content::Finder(_) => "Finder",
        }
    }

    /// Holds the figures against their targets.
    pub fn judgement(&self) -> Judgement {
        let (n, is_met, says) = match &self.content {
            Content::Memory(figures) => (figures.len(), true, format!("{} figures", figures.len())),
            Content::Plans(all) => plans(all),
            Content::Line(runs) => {
                let n_above: usize = runs.iter().map(|it| it.above_bound).sum();
                let is_met = runs.iter().all(|it| it.is_whole() && it.above_bound == 0 && it.used <= 1.0);
                (runs.len(), is_met, format!("{} runs, {n_above} steps above the bound", runs.len()))
            }
            Content::Shortage(runs) => {
                let n: usize = runs.iter().map(|it| it.failures).sum();
                (n, runs.iter().all(ProductRun::is_whole), format!("{n} attempts ran out of memory"))
            }
            Content::CoTenant(runs) => {
                let is_met = runs.iter().all(|it| it.is_whole() && it.budgets[0] < it.budgets[1]);
                (runs.len(), is_met, format!("{} runs with another process on the device", runs.len()))
            }
            Content::Recompute(runs) => recompute(runs),
            Content::Sweep(all) => {
                let shares: Vec<_> = all.iter().filter_map(Sweep::share).collect();
                let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
                (shares.len(), LEAST_SPEED <= least, format!("at least {least:.2} of the fastest"))
            }
            Content::Finder(all) => (all.len(), true, format!("{} comparisons", all.len())),
        };
        match n {
            0 => Judgement { is_met: None, says: "see below".to_owned() },
            _ => Judgement { is_met: Some(is_met), says: format!("{says}; {} left out", self.n_left_out()) },
        }
    }

    fn n_left_out(&self) -> usize {
        let missing = match &self.content {
            Content::Plans(all) => all.iter().map(|it| it.report.missing.len()).sum(),
            _ => 0,
        };
        self.left_out.len() + missing
    }
}

/// Compares the runs that recompute where it is needed with those that recompute everywhere.
fn recompute(runs: &[ProductRun]) -> (usize, bool, String) {
    let of = |what: &str| -> Vec<_> { runs.iter().filter(|it| it.what == what).map(|it| it.step_seconds).collect() };
    let (on, auto) = (of("on"), of("auto"));
    // One of them alone compares nothing.
    let n = on.len().min(auto.len());
    let ratio = median(&on) / median(&auto);
    let is_met = runs.iter().all(ProductRun::is_whole) && 1.0 <= ratio;
    (n, is_met, format!("a step takes {ratio:.2} times as long with recompute everywhere"))
}

fn plans(all: &[Precision]) -> (usize, bool, String) {
    let cells: Vec<_> = all.iter().flat_map(|it| &it.report.cells).collect();
    let errors: Vec<_> = all.iter().flat_map(|it| &it.report.summary).filter_map(|it| it.errors).collect();
    let (below, more): (usize, usize) = (errors.iter().map(|it| it.below).sum(), errors.iter().map(|it| it.more).sum());
    let equal: usize = errors.iter().map(|it| it.equal).sum();
    let n_above = cells.iter().filter(|it| it.violates()).count();
    let says = format!(
        "{} cells, {equal} equal, {below} planned below real, {more} more than a page above, {n_above} above the bound",
        cells.len()
    );
    (cells.len(), below == 0 && more == 0 && n_above == 0, says)
}

/// Writes the section of the page.
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n", self.title())?;
        match &self.content {
            Content::Memory(figures) => {
                let rows = figures.iter().map(|Figure { when, observer, quantity, answer }| {
                    [when, observer, quantity, answer].map(Clone::clone).to_vec()
                });
                table(f, &["when", "observer", "quantity", "answer"], rows)?;
            }
            Content::Plans(all) => {
                for Precision { dtype, report } in all {
                    writeln!(f, "In {dtype}:\n\n```text\n{report}```\n\n{}", report.targets)?;
                }
            }
            Content::Line(runs) | Content::Shortage(runs) | Content::CoTenant(runs) | Content::Recompute(runs) => {
                table(f, &ProductRun::HEAD, runs.iter().map(ProductRun::cells))?;
            }
            Content::Sweep(all) => table(f, &Sweep::HEAD, all.iter().map(Sweep::cells))?,
            Content::Finder(all) => all.iter().try_for_each(|it| writeln!(f, "```text\n{it}```"))?,
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\nLeft out, or refused:\n")?;
        }
        self.left_out.iter().try_for_each(|it| writeln!(f, "* {it}"))
    }
}

fn table(f: &mut fmt::Formatter<'_>, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> fmt::Result {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        writeln!(f, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()))?;
    }
    rows.try_for_each(|it| writeln!(f, "| {} |", it.join(" | ")))
}

#[cfg(test)]
mod tests {
    use plimsoll_types::Bytes;

    use super::*;

    fn met(content: Content) -> Option<bool> {
        Section { content, left_out: Vec::new() }.judgement().is_met
    }

    fn run() -> ProductRun {
        let budgets = [Bytes::mib(10), Bytes::mib(20)];
        ProductRun { asked: 3, steps: 3, is_finite: true, used: 0.9, failures: 1, budgets, ..ProductRun::default() }
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert_eq!(met(Content::Line(Vec::new())), None);
        assert_eq!(met(Content::Shortage(vec![ProductRun { failures: 0, ..run() }])), None);
    }

    #[test]
    fn a_run_above_its_bound_or_without_a_sample_misses() {
        assert_eq!(met(Content::Line(vec![run()])), Some(true));
        assert_eq!(met(Content::Line(vec![run(), ProductRun { above_bound: 1, ..run() }])), Some(false));
        assert_eq!(met(Content::Shortage(vec![run()])), Some(true));
        assert_eq!(met(Content::Shortage(vec![ProductRun { lost: 1, ..run() }])), Some(false));
    }

    #[test]
    fn a_budget_that_does_not_come_back_after_a_co_tenant_misses() {
        assert_eq!(met(Content::CoTenant(vec![run()])), Some(true));
        let budgets = [Bytes::mib(10); 2];
        assert_eq!(met(Content::CoTenant(vec![ProductRun { budgets, ..run() }])), Some(false));
    }
}
