//! How a plan is written.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use plimsoll_sampler::{Batches, PackedRows, Piece};
use serde_json::json;

/// The batches of a plan, in order.
pub(super) trait List {
    /// Writes unsigned 64-bit little-endian numbers.
    fn binary(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Writes a line of JSON for each batch.
    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()>;
}

/// Padded batches, and what their samples are called.
pub(super) struct Edges<const AXES: usize> {
    pub(super) batches: Batches<AXES>,
    pub(super) ids: Vec<u64>,
}

/// Packed rows, how many of them a batch has, and what their samples are called.
pub(super) struct Rows {
    pub(super) all: PackedRows,
    pub(super) of_batch: NonZeroUsize,
    pub(super) ids: Vec<u64>,
}

impl<const AXES: usize> Edges<AXES> {
    fn id(&self, id: u32) -> u64 {
        self.ids[id as usize]
    }
}

impl<const AXES: usize> List for Edges<AXES> {
    /// The ids in the order of the batches, then where each batch begins and the last one ends.
    fn binary(&self, out: &mut dyn Write) -> io::Result<()> {
        let ends = self.batches.iter().scan(0, |end, batch| {
            *end += batch.ids.len() as u64;
            Some(*end)
        });
        let ids = self.batches.iter().flat_map(|batch| batch.ids).map(|id| self.id(*id));
        write_numbers(ids.chain([0]).chain(ends), out)
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        self.batches.iter().zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let ids: Vec<_> = batch.ids.iter().map(|id| self.id(*id)).collect();
            writeln!(out, "{}", json!({ "rank": rank, "edges": batch.longest.to_vec(), "ids": ids }))
        })
    }
}

fn write_numbers(mut numbers: impl Iterator<Item = u64>, out: &mut dyn Write) -> io::Result<()> {
    numbers.try_for_each(|number| out.write_all(&number.to_le_bytes()))
}

impl Rows {
    /// The id, the start and the end of a piece.
    fn piece(&self, it: &Piece) -> [u64; 3] {
        [self.ids[it.id as usize], it.start.into(), it.end.into()]
    }
}

impl List for Rows {
    /// The pieces in the order of the rows, then where each row begins among them and the last one ends.
    fn binary(&self, out: &mut dyn Write) -> io::Result<()> {
        let ends = self.all.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        });
        write_numbers(self.all.iter().flatten().flat_map(|it| self.piece(it)).chain([0]).chain(ends), out)
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<_> = self.all.iter().collect();
        rows.chunks(self.of_batch.get()).zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let rows: Vec<Vec<_>> = batch.iter().map(|row| row.iter().map(|it| self.piece(it)).collect()).collect();
            writeln!(out, "{}", json!({ "rank": rank, "row_len": self.all.row_len(), "rows": rows }))
        })
    }
}
