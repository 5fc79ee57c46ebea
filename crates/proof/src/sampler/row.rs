//! What came of one case.

use std::fmt;

use serde::Serialize;

/// What came of one case; shares are from 0 to 1, times those of `CLOCK`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the lengths are of.
    pub data: String,
    /// How they were planned.
    pub setting: String,
    /// Number of samples.
    pub n: usize,
    /// Samples of a window.
    pub window: usize,
    /// The most that batch size times longest may be, on each axis.
    pub budget: Vec<u64>,
    /// How long it took.
    #[serde(flatten)]
    pub time: Time,
    /// What the plain way comes to.
    #[serde(flatten)]
    pub reference: Reference,
    /// How many batches there are, and how full.
    #[serde(flatten)]
    pub padding: Padding,
    /// How well they mix.
    #[serde(flatten)]
    pub mixing: Mixing,
    /// The most that the heap held, in bytes per sample.
    pub bytes_per_sample: f64,
}

/// Nanoseconds per sample to plan an epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Time {
    /// The median.
    pub ns_per_sample: f64,
    /// The least.
    pub ns_per_sample_least: f64,
    /// The reference's median.
    pub reference_ns_per_sample: f64,
    /// `ns_per_sample` over `reference_ns_per_sample`.
    pub ratio_to_reference: f64,
}

/// What came of the plain way: shuffle, sort, fill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// The share of padding, on the axis that has most.
    pub reference_waste: f64,
    /// Number of batches.
    pub reference_batches: u64,
    /// The share of a batch's pairs that share a batch in the next epoch, each batch counted alike.
    pub reference_mates_kept: f64,
}

/// How many batches there are, and how full.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Padding {
    /// The share of padding, on the axis that has most.
    pub waste: f64,
    /// The share of padding on each axis.
    pub waste_per_axis: Vec<f64>,
    /// The share of the cells beyond the longest of the batch, on the axis that has most.
    pub lattice_waste: f64,
    /// The least waste of all plans with the fewest batches, where it is known.
    pub optimum_waste: Option<f64>,
    /// Number of batches.
    pub batches: u64,
    /// No plan has fewer batches.
    pub lower_bound: u64,
    /// Batches that exceed the budget when padded to their longest or to their cell.
    pub over_budget: u64,
    /// Samples that are missing or come more than once.
    pub not_once: u64,
}

/// How well batches mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixing {
    /// The share of a batch's pairs that share a batch in the next epoch, each batch counted alike.
    pub mates_kept: f64,
    /// The same, each pair counted alike.
    pub mates_kept_over_pairs: f64,
    /// The entropy of the tasks in groups of eight batches over that of random groups, where there are tasks.
    pub task_entropy_ratio: Option<f64>,
    /// The same of single batches.
    pub task_entropy_ratio_per_batch: Option<f64>,
}

/// Returns the names of a [`Row`]'s columns, in two lines; `extra` is the share of batches above the lower bound, `over`
/// the number of batches above the budget.
pub fn table_head() -> String {
    let upper = format!(
        "{:<24} {:>9} {:<12} {:^13} {:>7} {:^23} {:^21} {:^17} {:^13} {:>6} {:^17}",
        "data",
        "n",
        "setting",
        "ns a sample",
        "ratio",
        "waste",
        "batches",
        "mates kept",
        "task entropy",
        "bytes",
        "reference"
    );
    let lower = format!(
        "{:<47} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>8} {:>7} {:>4} {:>8} {:>8} {:>6} {:>6} {:>6} {:>8} {:>8}",
        "",
        "median",
        "least",
        "",
        "",
        "optimum",
        "lattice",
        "",
        "extra",
        "over",
        "by batch",
        "by pair",
        "by 8",
        "by 1",
        "each",
        "waste",
        "mates"
    );
    format!("{upper}\n{lower}")
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n, setting, time, reference, padding, mixing, bytes_per_sample, .. } = self;
        write!(f, "{data:<24.24} {n:>9} {setting:<12} {time} {padding} {mixing} {bytes_per_sample:>6.1} {reference}")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.1} {:>6.1} {:>7.2}", self.ns_per_sample, self.ns_per_sample_least, self.ratio_to_reference)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} {:>8}", percent(self.reference_waste), percent(self.reference_mates_kept))
    }
}

impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optimum = self.optimum_waste.map_or("–".to_owned(), percent);
        let over_bound = percent(self.batches as f64 / self.lower_bound as f64 - 1.0);
        write!(f, "{:>7} {optimum:>7} {:>7}", percent(self.waste), percent(self.lattice_waste))?;
        write!(f, " {:>8} {over_bound:>7} {:>4}", self.batches, self.over_budget)
    }
}

impl fmt::Display for Mixing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |it| format!("{it:.3}"));
        write!(f, "{:>8} {:>8}", percent(self.mates_kept), percent(self.mates_kept_over_pairs))?;
        write!(f, " {:>6} {:>6}", ratio(self.task_entropy_ratio), ratio(self.task_entropy_ratio_per_batch))
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
