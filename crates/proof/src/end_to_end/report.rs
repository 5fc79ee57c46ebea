//! How the figures are written.

use std::fmt;
use std::ops::AddAssign;

use plimsoll_sampler::StepSize;
use plimsoll_types::{Bytes, StepShape};
use serde::Serialize;

use super::{Method, WholeRun};
use crate::median::median;

/// What a method did in an epoch, or in one of its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ran {
    /// Tokens or frames without padding.
    pub units: u64,
    /// Tokens or frames with padding.
    pub padded: u64,
    /// Micro-batches that were asked for.
    pub batches: u64,
    /// Attempts whose peak was above the capacity.
    pub oom: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Processor time in seconds.
    pub cpu_seconds: f64,
}

impl AddAssign for Ran {
    fn add_assign(&mut self, other: Self) {
        self.units += other.units;
        self.padded += other.padded;
        self.batches += other.batches;
        self.oom += other.oom;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// What was measured of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The job.
    pub job: String,
    /// What it runs.
    pub program: String,
    /// What its lengths count.
    pub unit: String,
    /// Samples of an epoch.
    pub samples: usize,
    /// The greatest length.
    pub longest: u32,
    /// What Plimsoll pads to.
    pub edges: Vec<u32>,
    /// Whether it packs instead, into rows as long as the longest sample.
    pub is_packed: bool,
    /// What an optimizer step takes.
    pub size: StepSize,
    /// The most samples of each edge.
    pub batch_sizes: Vec<u32>,
    /// What a step may use.
    pub budget: Bytes,
    /// Above this a step is out of memory.
    pub capacity: Bytes,
    /// Shapes of the real steps from which the batch sizes were learnt.
    pub trials: Vec<StepShape>,
}

/// One method on one job; shares are from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The job.
    pub job: String,
    /// How its samples came into batches.
    pub method: Method,
    /// Tokens or frames without padding per second of wall time: the median over the epochs.
    pub units_per_second: f64,
    /// Plimsoll's `units_per_second` over this one.
    pub ratio: f64,
    /// Tokens or frames without padding per second of processor time: the median over the epochs.
    pub units_per_cpu_second: f64,
    /// Plimsoll's `units_per_cpu_second` over this one.
    pub cpu_ratio: f64,
    /// The share of padding in all positions.
    pub padding: f64,
    /// Attempts whose measured peak was above the capacity.
    pub oom: u64,
    /// Micro-batches.
    pub batches: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Epochs of which the medians are.
    pub epochs: usize,
}

/// The content of `end-to-end.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// One for each job and method.
    pub rows: Vec<Row>,
    /// What was the same for all methods of a job.
    pub jobs: Vec<Measured>,
    /// Whole runs as they ship.
    pub runs: Vec<WholeRun>,
}

impl Report {
    /// Adds what another one has.
    pub fn append(&mut self, Self { rows, jobs, runs }: Self) {
        self.rows.extend(rows);
        self.jobs.extend(jobs);
        self.runs.extend(runs);
    }

    /// Adds a job with the epochs of each method, in the order of [`Method::ALL`].
    pub fn add(&mut self, job: Measured, epochs: &[Vec<Ran>]) {
        let rate = |of: &Vec<Ran>, seconds: fn(&Ran) -> f64| {
            median(&of.iter().map(|it| it.units as f64 / seconds(it)).collect::<Vec<_>>())
        };
        let rates = |of| (rate(of, |it| it.seconds), rate(of, |it| it.cpu_seconds));
        let own = epochs.first().map_or((0.0, 0.0), rates);
        for (method, epochs) in Method::ALL.into_iter().zip(epochs) {
            let (units_per_second, units_per_cpu_second) = rates(epochs);
            let sum = |of: fn(&Ran) -> u64| epochs.iter().map(of).sum::<u64>();
            self.rows.push(Row {
                job: job.job.clone(),
                method,
                units_per_second,
                ratio: own.0 / units_per_second,
                units_per_cpu_second,
                cpu_ratio: own.1 / units_per_cpu_second,
                padding: 1.0 - sum(|it| it.units) as f64 / sum(|it| it.padded) as f64,
                oom: sum(|it| it.oom),
                batches: sum(|it| it.batches),
                seconds: epochs.iter().map(|it| it.seconds).sum(),
                epochs: epochs.len(),
            });
        }
        self.jobs.push(job);
    }
}

/// Stands above the rows.
const HEADER: &str = "method      per second  ratio  per CPU s  ratio  padding  oom  batches   seconds  epochs";

/// Writes the tables for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for job in &self.jobs {
            writeln!(f, "{job}\n{HEADER}")?;
            self.rows.iter().filter(|it| it.job == job.job).try_for_each(|row| writeln!(f, "{row}"))?;
        }
        self.runs.iter().try_for_each(|run| writeln!(f, "{run}"))
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, unit, samples, longest, capacity, batch_sizes, .. } = self;
        let fixed = batch_sizes.last().copied().unwrap_or(0);
        let packed = if self.is_packed { ", and as many rows of Plimsoll's" } else { "" };
        write!(f, "{job}: {samples} samples of up to {longest} {unit}, {fixed} of which fit into {capacity}{packed}")
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, units_per_second, ratio, units_per_cpu_second, cpu_ratio, oom, batches, .. } = self;
        let (padding, seconds, epochs) = (100.0 * self.padding, self.seconds, self.epochs);
        write!(f, "{method:<10} {units_per_second:>11.0} {ratio:>6.2} {units_per_cpu_second:>10.0} {cpu_ratio:>6.2} ")?;
        write!(f, "{padding:>6.1} % {oom:>4} {batches:>8} {seconds:>9.1} {epochs:>7}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Measured {
        Measured {
            job: "text".to_owned(),
            program: "text with 2 layers".to_owned(),
            unit: "tokens".to_owned(),
            samples: 900,
            longest: 512,
            edges: vec![64, 512],
            is_packed: true,
            size: StepSize::Positions(4096),
            batch_sizes: vec![80, 6],
            budget: Bytes::mib(90),
            capacity: Bytes::mib(100),
            trials: vec![StepShape::new(6, 512)],
        }
    }

    fn epoch(units: u64, seconds: f64) -> Ran {
        Ran { units, padded: 2 * units, batches: 3, oom: 0, seconds, cpu_seconds: 2.0 * seconds }
    }

    #[test]
    fn ratios_are_of_medians_over_the_epochs() {
        let mut report = Report::default();
        // One epoch of Plimsoll was disturbed, and one of the fixed batches ran out of memory.
        let plimsoll = vec![epoch(300, 1.0), epoch(300, 9.0), epoch(330, 1.0)];
        let fixed = vec![epoch(100, 1.0), Ran { oom: 1, ..epoch(110, 1.0) }, epoch(120, 1.0)];
        report.add(job(), &[plimsoll, fixed, vec![epoch(150, 1.0)]]);
        let ratios: Vec<_> = report.rows.iter().map(|it| (it.method.to_string(), it.ratio, it.oom)).collect();
        let expected = [("plimsoll", 1.0, 0), ("fixed", 300.0 / 110.0, 1), ("random", 2.0, 0)];
        assert_eq!(ratios, expected.map(|(name, ratio, oom)| (name.to_owned(), ratio, oom)));
        assert!(
            report.rows.iter().all(|it| (it.padding - 0.5).abs() < 1e-12 && (it.cpu_ratio - it.ratio).abs() < 1e-12)
        );
    }

    #[test]
    fn the_table_names_job_capacity_and_methods() {
        let mut report = Report::default();
        report.add(job(), &[vec![epoch(300, 0.5)], vec![epoch(100, 0.5)], vec![epoch(150, 0.5)]]);
        insta::assert_snapshot!(report, @"
        text: 900 samples of up to 512 tokens, 6 of which fit into 100.00 MiB, and as many rows of Plimsoll's
        method      per second  ratio  per CPU s  ratio  padding  oom  batches   seconds  epochs
        plimsoll           600   1.00        300   1.00   50.0 %    0        3       0.5       1
        fixed              200   3.00        100   3.00   50.0 %    0        3       0.5       1
        random             300   2.00        150   2.00   50.0 %    0        3       0.5       1
        ");
    }
}
