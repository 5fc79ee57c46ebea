//! How a plan is written.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use plimsoll_sampler::{Batches, Groups, PackedRows, Piece};
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

/// Batches of groups that stay together, and what their samples are called.
pub(super) struct Together {
    pub(super) batches: Batches<2>,
    pub(super) groups: Groups,
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
    fn binary(&self, out: &mut dyn Write) -> io::Result<()> {
        let ids = self.batches.iter().flat_map(|batch| batch.ids).map(|id| [self.id(*id)]);
        write_binary(ids, self.batches.iter().map(|batch| batch.ids.len()), out)
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        self.batches.iter().zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let ids: Vec<_> = batch.ids.iter().map(|id| self.id(*id)).collect();
            writeln!(out, "{}", json!({ "rank": rank, "edges": batch.longest.to_vec(), "ids": ids }))
        })
    }
}

impl Together {
    /// The samples of each batch, and what they are padded to.
    fn batches(&self) -> impl Iterator<Item = (Vec<u64>, u32)> {
        self.batches.iter().map(|batch| {
            let members = batch.ids.iter().flat_map(|group| self.groups.members(*group));
            (members.map(|id| self.ids[*id as usize]).collect(), batch.longest[1])
        })
    }
}

impl List for Together {
    fn binary(&self, out: &mut dyn Write) -> io::Result<()> {
        let ids = self.batches().flat_map(|it| it.0).map(|id| [id]);
        write_binary(ids, self.batches().map(|it| it.0.len()), out)
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        self.batches().zip((0..n_ranks).cycle()).try_for_each(|((ids, longest), rank)| {
            writeln!(out, "{}", json!({ "rank": rank, "edges": [longest], "ids": ids }))
        })
    }
}

impl Rows {
    /// The id, the start and the end of a piece.
    fn piece(&self, it: &Piece) -> [u64; 3] {
        [self.ids[it.id as usize], it.start.into(), it.end.into()]
    }
}

impl List for Rows {
    fn binary(&self, out: &mut dyn Write) -> io::Result<()> {
        write_binary(self.all.iter().flatten().map(|it| self.piece(it)), self.all.iter().map(<[Piece]>::len), out)
    }

    fn json(&self, n_ranks: u32, out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<_> = self.all.iter().collect();
        rows.chunks(self.of_batch.get()).zip((0..n_ranks).cycle()).try_for_each(|(batch, rank)| {
            let rows: Vec<Vec<_>> = batch.iter().map(|row| row.iter().map(|it| self.piece(it)).collect()).collect();
            writeln!(out, "{}", json!({ "rank": rank, "row_len": self.all.row_len(), "rows": rows }))
        })
    }
}

/// Writes the ids in the order of the batches, or the pieces in that of the rows, then where each batch or row begins among
/// them and the last one ends.
fn write_binary<const N: usize>(
    of_each: impl Iterator<Item = [u64; N]>,
    sizes: impl Iterator<Item = usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let ends = sizes.scan(0, |end, size| {
        *end += size as u64;
        Some(*end)
    });
    of_each.flatten().chain([0]).chain(ends).try_for_each(|number| out.write_all(&number.to_le_bytes()))
}
