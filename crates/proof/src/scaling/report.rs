//! How the figures are written.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{Exchange, Network, Rule, StepCost};

/// What one rule came to in one world; times are means in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the lengths are of.
    pub data: String,
    /// How many devices.
    pub n_devices: usize,
    /// Which.
    pub world: &'static str,
    /// How much faster than the measured core a device of speed 1 is.
    #[serde(serialize_with = "short")]
    pub faster: f64,
    /// Padded positions of a step.
    pub positions: u64,
    /// How it was dealt.
    pub rule: Rule,
    /// Samples of a step, on average.
    #[serde(serialize_with = "short")]
    pub samples: f64,
    /// How long the slowest device computes.
    #[serde(serialize_with = "short")]
    pub slowest: f64,
    /// Positions a second of all devices, without what batches are padded beyond them.
    #[serde(serialize_with = "short")]
    pub speed: f64,
    /// The share of the step in which a device waits.
    #[serde(serialize_with = "short")]
    pub idle: f64,
    /// The part of its room that a device uses.
    #[serde(serialize_with = "short")]
    pub used: f64,
    /// The same of the class that uses least.
    #[serde(serialize_with = "short")]
    pub least_used: f64,
    /// Positions a second, over those where all are bound by the smallest.
    #[serde(serialize_with = "short")]
    pub ratio: f64,
    /// The median of the processor time that dealing took.
    #[serde(serialize_with = "short")]
    pub deal: f64,
}

/// What agreeing and adding would take on a network; times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// What the lengths are of.
    pub data: String,
    /// How many ranks.
    pub n_devices: usize,
    /// How much faster than the measured core a device of speed 1 is.
    #[serde(serialize_with = "short")]
    pub faster: f64,
    /// Padded positions of a step.
    pub positions: u64,
    /// The network.
    pub network: &'static str,
    /// Values of the gradients.
    pub n_values: usize,
    /// How long the slowest device computes.
    #[serde(serialize_with = "short")]
    pub step: f64,
    /// To agree.
    #[serde(serialize_with = "short")]
    pub agree: f64,
    /// To add.
    #[serde(serialize_with = "short")]
    pub sum: f64,
    /// To add if shares went through a tree.
    #[serde(serialize_with = "short")]
    pub sum_by_tree: f64,
    /// The share of the whole in which a device computes.
    #[serde(serialize_with = "short")]
    pub busy: f64,
}

/// The content of `scaling.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What a step was measured to take, in seconds.
    pub cost: StepCost,
    /// What ranks were measured to take.
    pub exchanges: Vec<Exchange>,
    /// One for each case and rule.
    pub rows: Vec<Row>,
    /// One for each network and number of values.
    pub clusters: Vec<Cluster>,
}

/// Writes a number with five digits.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(format!("{value:.4e}").parse().unwrap_or(*value))
}

impl Row {
    /// Stands above the rows.
    pub const HEAD: &'static str = "data          devices world                faster   positions  samples rule        step   idle   used  least  ratio     deal";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n_devices, world, faster, positions, samples, rule, slowest, ratio, .. } = self;
        write!(f, "{data:<13.13} {n_devices:>7} {world:<20} {faster:>6} {positions:>11} {samples:>8.0} ")?;
        write!(f, "{:<8} {slowest:>6.2} s {:>4.1} % ", rule.name(), 100.0 * self.idle)?;
        write!(f, "{:>4.0} % {:>4.0} % ", 100.0 * self.used, 100.0 * self.least_used)?;
        write!(f, "{ratio:>6.2} {:>5.2} ms", 1e3 * self.deal)
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n_devices, faster, positions, network, step, .. } = self;
        write!(f, "{data:<13.13} {n_devices:>7} {faster:>6} {positions:>11} {network:<10} ")?;
        write!(f, "{:>5} M {step:>6.2} s {:>6.2} ms ", self.n_values / 1_000_000, 1e3 * self.agree)?;
        write!(f, "{:>8.1} ms {:>8.1} ms {:>4.0} %", 1e3 * self.sum, 1e3 * self.sum_by_tree, 100.0 * self.busy)
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: agree {:.1} µs", self.n_ranks, self.ranks, 1e6 * self.agree)?;
        self.values.iter().try_for_each(|it| {
            write!(f, "; {} values: sum {:.3} ms, ", it.n_values, 1e3 * it.sum)?;
            write!(f, "broadcast {:.3} ms", 1e3 * it.broadcast)
        })
    }
}

impl fmt::Display for StepCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, micro_batch, position } = self;
        write!(f, "a step {:.2} ms, a micro-batch {:.2} ms, ", 1e3 * step, 1e3 * micro_batch)?;
        write!(f, "a padded position {:.1} µs", 1e6 * position)
    }
}

/// Writes what was measured, and what follows from it; the rows are told one by one.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exchanges.iter().try_for_each(|it| writeln!(f, "{it}"))?;
        for it in Network::ALL {
            writeln!(f, "{}: {:.0} µs a message, {} a second", it.name, 1e6 * it.latency, it.bandwidth())?;
        }
        writeln!(
            f,
            "data          devices faster   positions network     values     step      agree         sum     by tree   busy"
        )?;
        self.clusters.iter().try_for_each(|it| writeln!(f, "{it}"))
    }
}
