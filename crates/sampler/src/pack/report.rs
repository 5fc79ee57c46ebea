//! How good rows are.

use serde::Serialize;

use super::load::PackLoad;
use super::piece::Piece;
use super::planner::PackPlanner;
use super::rows::PackedRows;
use crate::plan::mixing::pairs_kept;

/// How full the rows of an epoch are, and how well they mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PackReport {
    /// Number of rows.
    pub n_rows: u64,
    /// Number of pieces.
    pub n_pieces: u64,
    /// The part of the rows' positions that holds pieces: 0 to 1.
    pub filled: f64,
    /// The share of pairs of a row that share a row in the next epoch too, each row counted alike: 0 to 1.
    pub mates_kept: f64,
}

impl PackPlanner {
    /// Measures the rows of an epoch, by themselves and against those of the next epoch, which it packs.
    pub fn report(&self, epoch: u64, rows: &PackedRows) -> PackReport {
        let load = rows.load();
        PackReport {
            n_rows: rows.len() as u64,
            n_pieces: rows.iter().map(|row| row.len() as u64).sum(),
            filled: filled(load),
            mates_kept: mates_kept(rows, &self.plan_epoch(epoch.wrapping_add(1))),
        }
    }

    /// Whether the rows of epoch 0, which is packed for it, are fuller than all samples are where each is padded to the least of
    /// these growing edges that holds it, or to its own length where none does.
    pub fn is_fuller_than(&self, edges: &[u32]) -> bool {
        let edge = |length: u32| edges.get(edges.partition_point(|it| *it < length)).copied().unwrap_or(length);
        let lengths = || self.index().iter().map(|[length]| length);
        let sum = |of: &dyn Fn(u32) -> u32| lengths().map(|it| u64::from(of(it))).sum::<u64>() as f64;
        sum(&|it| it) / sum(&edge) < filled(self.plan_epoch(0).load())
    }
}

/// Returns the part of the positions of rows that holds pieces.
fn filled(load: PackLoad) -> f64 {
    load.positions as f64 / load.block.max(1) as f64
}

/// Returns the share of pairs of a row that share a row in the next epoch.
fn mates_kept(here: &PackedRows, next: &PackedRows) -> f64 {
    let mut row_in_next: Vec<(Piece, usize)> =
        next.iter().enumerate().flat_map(|(row, of)| of.iter().map(move |piece| (*piece, row))).collect();
    row_in_next.sort_unstable();
    let found = |piece: &Piece| row_in_next.binary_search_by_key(piece, |it| it.0).ok();
    let row = |piece: &Piece| (*piece, found(piece).map(|at| row_in_next[at].1));
    pairs_kept(here.iter().map(|of| of.iter().map(row)))
}
