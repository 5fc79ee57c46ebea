//! Flags of `plan-batches`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use plimsoll_types::Fraction;

use crate::values::EpochEnds;

#[derive(Debug, Args)]
pub(crate) struct PlanBatchesArgs {
    /// The length of each sample, a whole number on a line of its own, or up to three of them, one for each axis that is padded
    /// by itself; sample 0 is the first line.
    #[arg(long, value_name = "FILE")]
    pub(crate) lengths: PathBuf,
    /// What no batch exceeds: its number of samples times the longest of them, as one number for each column; or the positions
    /// of its packed rows.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = value_parser!(u64).range(1..), required = true)]
    pub(crate) budget: Vec<u64>,
    /// Pack samples into rows of so many positions, one behind the other, rather than padding each to the longest of its batch.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) row_len: Option<u32>,
    /// Cut what is longer than a row into pieces that repeat so many positions of the one before; else it is refused.
    #[arg(long, value_name = "N", requires = "row_len")]
    pub(crate) overlap: Option<u32>,
    /// Every batch has a multiple of so many samples, but for what is left at the end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..), conflicts_with = "row_len")]
    pub(crate) multiple_of: u32,
    /// The most samples of a batch, whatever the budget has room for.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..), conflicts_with = "row_len")]
    pub(crate) max_batch_size: Option<u32>,
    /// Leave out what does not fill a batch at the end, rather than make a smaller one.
    #[arg(long, conflicts_with = "row_len")]
    pub(crate) drop_last: bool,
    /// The least length of a sample that takes part, as one number for all columns or one for each; 1 by default.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    pub(crate) shortest: Vec<u32>,
    /// The greatest length of a sample that takes part, as one number for all columns or one for each.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    pub(crate) longest: Vec<u32>,
    /// What becomes of samples that are shorter, empty or longer.
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    pub(crate) outside: Outside,
    /// The task or source of each sample, a name on a line of its own in the order of the lengths.
    #[arg(long, value_name = "FILE")]
    pub(crate) tasks: Option<PathBuf>,
    /// The share of each task among the samples of any stretch, as in `books=0.7,code=0.3`; by default that of the data.
    #[arg(long, value_name = "NAME=SHARE", value_delimiter = ',', requires = "tasks", value_parser = share)]
    #[arg(group = "wanted")]
    pub(crate) shares: Vec<(String, f64)>,
    /// Divide shares that do not sum to 1 by their sum.
    #[arg(long, requires = "shares")]
    pub(crate) normalize_shares: bool,
    /// Shares in proportion to the samples of each task to the power of one through this: more than 1 makes them more equal.
    #[arg(long, value_name = "N", requires = "tasks", conflicts_with = "shares", group = "wanted")]
    pub(crate) temperature: Option<f64>,
    /// The group of each sample, such as its document, a name on a line of its own in the order of the lengths: samples of a
    /// group come in one batch, or one packed row.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tasks", "multiple_of", "drop_last", "overlap", "weights"])]
    pub(crate) groups: Option<PathBuf>,
    /// What ends the epoch of tasks with shares, given or by temperature.
    #[arg(long, value_name = "WHEN", default_value = "all-once", requires = "wanted")]
    pub(crate) ends: EpochEnds,
    /// Give each batch samples of one task only.
    #[arg(long, requires = "tasks", conflicts_with = "row_len")]
    pub(crate) homogeneous: bool,
    /// The weight of each sample, a number from 0 on a line of its own in the order of the lengths: as many samples as there are
    /// are drawn with replacement, each in proportion to its weight.
    #[arg(long, value_name = "FILE", conflicts_with = "wanted")]
    pub(crate) weights: Option<PathBuf>,
    /// Deal the batches to so many ranks, one after the other: batch 0 to rank 0, batch 1 to rank 1, and so on. For each rank to
    /// have as many, the largest batches are cut where they have samples enough; packed rows are not.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=65536))]
    pub(crate) ranks: u32,
    /// Seed of the order.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The epoch, each with an order and with batches of its own.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) epoch: u64,
    /// Where the plan goes.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// How the plan is written.
    #[arg(long, value_name = "FORMAT", default_value = "binary")]
    pub(crate) format: Format,
    /// How many samples are arranged at a time: more is less padding, fewer more mixing; by default all up to 262144, and
    /// 16384 of more; of packed ones 8192 at most.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) window: Option<u64>,
    /// The part of the pairs of a batch that may share a batch in the next epoch too, from 0 to 1; 0.03 by default.
    #[arg(long, value_name = "PART", value_parser = part, conflicts_with = "row_len")]
    pub(crate) most_mates_kept: Option<Fraction>,
    /// Plan one column for the least time of padded positions and of so many for each batch, rather than for the fewest batches;
    /// with 0 for the least padding.
    #[arg(long, value_name = "N", value_parser = overhead, conflicts_with_all = ["row_len", "multiple_of", "groups"])]
    pub(crate) least_time: Option<f64>,
    /// What is printed of the plan, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Outside {
    /// There is no plan.
    Refuse,
    /// They are left out, and counted.
    Skip,
    /// Longer ones are cut to the greatest length, shorter ones left out, and both are counted.
    Truncate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Unsigned 64-bit little-endian numbers: the ids of all samples in order, then the place at which each batch begins, the
    /// first at 0, and last the number of samples. Of packed rows: the id, the start and the end of each piece in order, then the
    /// piece at which each row begins, the first at 0, and last the number of pieces.
    Binary,
    /// A line of JSON for each batch: `rank`, and `ids` with the `edges` that they are padded to, or `rows` of
    /// `[id, start, end]`.
    Json,
}

/// Reads a part of a whole.
fn part(text: &str) -> Result<Fraction, String> {
    let part = text.parse().ok().and_then(|it| Fraction::try_new(it).ok());
    part.ok_or_else(|| "a number from 0 to 1 is expected".to_owned())
}

/// Reads the time of a batch, in positions.
fn overhead(text: &str) -> Result<f64, String> {
    let overhead = text.parse().ok().filter(|it: &f64| it.is_finite() && 0.0 <= *it);
    overhead.ok_or_else(|| "a number from 0 on is expected".to_owned())
}

/// Reads a name and its share.
fn share(text: &str) -> Result<(String, f64), String> {
    let share = text.rsplit_once('=').map(|(name, share)| (name.trim(), share.trim().parse::<f64>()));
    match share {
        Some((name, Ok(share))) if !name.is_empty() && (0.0..=1.0).contains(&share) => Ok((name.to_owned(), share)),
        _ => Err("a name and a share from 0 to 1 are expected, as in `books=0.7`".to_owned()),
    }
}
