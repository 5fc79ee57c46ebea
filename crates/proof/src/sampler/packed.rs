//! What came of packing.

use std::fmt;
use std::hint::black_box;

use plimsoll_sampler::{
    PackBudget, PackConfig, PackPlanner, PackPosition, PackedRows, Piece, SampleIndex, SamplerError, Split,
};
use serde::Serialize;

use super::cpu::timed;
use super::resume::median_and_most;

/// Rows that go through the model together where epochs are resumed.
const BUDGET: PackBudget = PackBudget { rows: 8, squares: u64::MAX };

/// Samples that are packed into rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Packed {
    /// What the lengths are of.
    pub data: String,
    /// Number of samples.
    pub n: usize,
    /// Positions of a row; samples that are longer are cut.
    pub row_len: u32,
    /// Samples of a window.
    pub window: usize,
    /// Processor time to plan an epoch, in nanoseconds a sample, the median.
    pub ns_per_sample: f64,
    /// The least.
    pub ns_per_sample_least: f64,
    /// Number of rows.
    pub rows: u64,
    /// The part of the rows that is padding: 0 to 1.
    pub waste: f64,
    /// The share of a row's pairs that share a row in the next epoch, each row counted alike; where there are at most a
    /// million samples.
    pub mates_kept: Option<f64>,
    /// Rows that hold more positions than they have.
    pub over_budget: usize,
    /// Samples of which a position is missing or comes again.
    pub not_once: usize,
    /// Processor time from a position in the middle to the next batch, in milliseconds, the median.
    pub resume_ms: f64,
    /// The most.
    pub resume_ms_most: f64,
    /// Size of the position as JSON, in bytes.
    pub position_bytes: usize,
}

impl Packed {
    /// Packs `n_repeats` epochs, and resumes in the middle of one.
    ///
    /// # Errors
    ///
    /// [`SamplerError`] when a length is zero.
    pub fn measure(data: &str, lengths: Vec<u32>, row_len: u32, n_repeats: usize) -> Result<Self, SamplerError> {
        let (n, index) = (lengths.len(), SampleIndex::try_new([lengths])?);
        let config = PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(row_len) };
        let planner = PackPlanner::try_new(index, config)?;
        let mut times: Vec<f64> = (0..).take(n_repeats.max(1)).map(|epoch| ns(&planner, epoch)).collect();
        let (ns_per_sample, _) = median_and_most(&mut times);
        let rows = planner.plan_epoch(0);
        let load = rows.load();
        let position = middle(&planner, rows.len() / 2)?;
        let mut resumed = Vec::new();
        for _ in 0..201 {
            let (next, time) =
                timed(|| Ok::<_, SamplerError>(planner.resume(black_box(&position))?.next_batch(&BUDGET)?));
            drop(black_box(next?));
            resumed.push(1e3 * time.as_secs_f64());
        }
        let (resume_ms, resume_ms_most) = median_and_most(&mut resumed);
        Ok(Self {
            data: data.to_owned(),
            n,
            row_len,
            window: planner.config().window(planner.index()),
            ns_per_sample,
            ns_per_sample_least: times[0],
            rows: rows.len() as u64,
            waste: 1.0 - load.positions as f64 / load.block as f64,
            mates_kept: (n <= 1_000_000).then(|| planner.report(0, &rows).mates_kept),
            over_budget: over_budget(&rows),
            not_once: not_once(&planner, &rows),
            resume_ms,
            resume_ms_most,
            position_bytes: serde_json::to_vec(&position).map_or(0, |it| it.len()),
        })
    }
}

/// The time of one epoch, a sample.
fn ns(planner: &PackPlanner, epoch: u64) -> f64 {
    let (rows, time) = timed(|| planner.plan_epoch(epoch));
    drop(black_box(rows));
    1e9 * time.as_secs_f64() / planner.index().n_samples() as f64
}

/// The position after so many rows.
fn middle(planner: &PackPlanner, n_rows: usize) -> Result<PackPosition, SamplerError> {
    let (mut epoch, mut n_taken) = (planner.epoch(0), 0);
    while let Some(batch) = if n_taken < n_rows { epoch.next_batch(&BUDGET)? } else { None } {
        n_taken += batch.len();
    }
    Ok(epoch.position())
}

fn over_budget(rows: &PackedRows) -> usize {
    let length = |row: &[Piece]| row.iter().map(|piece| u64::from(piece.len())).sum::<u64>();
    rows.iter().filter(|row| length(row) > u64::from(rows.row_len())).count()
}

/// Samples whose pieces are not the whole of them, each position once.
fn not_once(planner: &PackPlanner, rows: &PackedRows) -> usize {
    let mut pieces: Vec<_> = rows.iter().flatten().map(|piece| (piece.id, piece.start, piece.end)).collect();
    pieces.sort_unstable();
    let mut ends = vec![0; planner.index().n_samples()];
    for (id, start, end) in pieces {
        let so_far = &mut ends[id as usize];
        *so_far = if *so_far == start { end } else { u32::MAX };
    }
    (0..).zip(ends).filter(|(id, end)| planner.index().get(*id) != Some([*end])).count()
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, n, row_len, window, ns_per_sample, ns_per_sample_least, rows, .. } = self;
        write!(f, "{n} {data} in rows of {row_len}, window {window}: {ns_per_sample:.1} ns a sample, at least")?;
        write!(f, " {ns_per_sample_least:.1}; {rows} rows, {:.2} % padding, ", 100.0 * self.waste)?;
        let kept = self.mates_kept.map_or("–".to_owned(), |kept| format!("{:.2} %", 100.0 * kept));
        write!(f, "{kept} of mates kept; {} over budget, {} not once; ", self.over_budget, self.not_once)?;
        let Self { resume_ms, resume_ms_most, position_bytes, .. } = self;
        write!(f, "resuming in {resume_ms:.3} ms, at most {resume_ms_most:.3} ms, from {position_bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_are_counted_from_pieces() {
        let it = Packed::measure("chats", super::super::documents(3_000), 4_096, 1).unwrap();
        assert_eq!((it.over_budget, it.not_once), (0, 0), "{it}");
        assert!(it.waste < 0.02 && it.mates_kept.is_some() && it.position_bytes < 4_096, "{it}");
    }
}
