//! How a plan is written.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use plimsoll_sampler::{Batches, PackedRows, Piece};
use serde_json::json;

/// The batches of a plan, in order.
pub(super) trait List {
    /// Writes unsigned 64-bit little-endian numbers, or returns none where these cannot say it.
    fn binary(&self, out: &mut dyn Write) -> Option<io::Result<()>>;

    /// Writes a line of JSON for each batch.
    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()>;
}

/// Padded batches, and what their samples are called where some were left out.
pub(super) struct Edges<const AXES: usize> {
    pub(super) batches: Batches<AXES>,
    pub(super) ids: Option<Vec<u64>>,
}

/// Packed rows, how many of them a batch has, and what their samples are called.
pub(super) struct Rows {
    pub(super) all: PackedRows,
    pub(super) of_batch: NonZeroUsize,
    pub(super) ids: Vec<u64>,
}

impl<const AXES: usize> Edges<AXES> {
    fn id(&self, id: u32) -> u64 {
        self.ids.as_ref().map_or(id.into(), |ids| ids[id as usize])
    }
}

impl<const AXES: usize> List for Edges<AXES> {
    /// The ids in the order of the batches, then where each batch begins and the last one ends.
    fn binary(&self, out: &mut dyn Write) -> Option<io::Result<()>> {
        let mut write = |number: u64| out.write_all(&number.to_le_bytes());
        let ends = self.batches.iter().scan(0, |end, batch| {
            *end += batch.ids.len() as u64;
            Some(*end)
        });
        let ids = self.batches.iter().flat_map(|batch| batch.ids).map(|id| self.id(*id));
        Some(ids.chain([0]).chain(ends).try_for_each(&mut write))
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        self.batches.iter().zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let ids: Vec<_> = batch.ids.iter().map(|id| self.id(*id)).collect();
            writeln!(out, "{}", json!({ "rank": rank, "edges": batch.longest.to_vec(), "ids": ids }))
        })
    }
}

impl List for Rows {
    fn binary(&self, _out: &mut dyn Write) -> Option<io::Result<()>> {
        None
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        let piece = |it: &Piece| [self.ids[it.id as usize], it.start.into(), it.end.into()];
        let rows: Vec<_> = self.all.iter().collect();
        rows.chunks(self.of_batch.get()).zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let rows: Vec<Vec<_>> = batch.iter().map(|row| row.iter().map(piece).collect()).collect();
            writeln!(out, "{}", json!({ "rank": rank, "row_len": self.all.row_len(), "rows": rows }))
        })
    }
}
