//! Where the items of batches come from.

use std::sync::Arc;

use burn::data::dataset::Dataset;
use plimsoll_sampler::Piece;
use plimsoll_types::Bytes;

use super::costs::{guarded, read};
use super::error::BatchesError;
use super::row::{Row, RowPart};
use super::table::Table;

/// A length or a size of an item.
pub(super) type OfItem<I> = Arc<dyn Fn(&I) -> usize + Send + Sync>;

/// An item on the host, and how much it holds.
pub(super) struct Held<I> {
    pub(super) item: I,
    pub(super) bytes: Bytes,
}

/// Makes items of pieces of samples, whose places are counted from the first of these samples.
pub(super) trait Supply<I>: Send + Sync {
    /// Reads what one item is made of.
    fn item(&self, pieces: &[Piece], table: &Table, first: usize) -> Result<Held<I>, BatchesError>;
}

/// The samples of a dataset.
pub(super) struct Samples<I> {
    pub(super) dataset: Arc<dyn Dataset<I>>,
    pub(super) size: Option<OfItem<I>>,
}

impl<I> Samples<I> {
    /// Reads the sample that an index names.
    fn read(&self, index: usize, cost: u32) -> Result<Held<I>, BatchesError> {
        let item = read(&*self.dataset, index)?;
        let bytes = match &self.size {
            Some(size) => guarded(index, || size(&item))?,
            None => size_of::<I>() + size_of::<f32>() * cost as usize,
        };
        Ok(Held { item, bytes: Bytes(bytes as u64) })
    }

    /// Reads the sample of a piece, and says which it is.
    fn sample(&self, piece: Piece, table: &Table, first: usize) -> Result<(usize, Held<I>), BatchesError> {
        let at = first + piece.id as usize;
        let index = table.index_of(at);
        Ok((index, self.read(index, table.cost(at))?))
    }
}

/// Items that are samples.
pub(super) struct Whole<I>(pub(super) Samples<I>);

impl<I> Supply<I> for Whole<I> {
    fn item(&self, pieces: &[Piece], table: &Table, first: usize) -> Result<Held<I>, BatchesError> {
        Ok(self.0.sample(pieces[0], table, first)?.1)
    }
}

/// Items that are rows of samples.
pub(super) struct InRows<I> {
    pub(super) samples: Samples<I>,
    pub(super) row_len: u32,
}

impl<I> Supply<Row<I>> for InRows<I> {
    fn item(&self, pieces: &[Piece], table: &Table, first: usize) -> Result<Held<Row<I>>, BatchesError> {
        let (mut parts, mut bytes) = (Vec::with_capacity(pieces.len()), Bytes::ZERO);
        for piece in pieces {
            let (index, held) = self.samples.sample(*piece, table, first)?;
            bytes = bytes.saturating_add(held.bytes);
            parts.push(RowPart { item: held.item, index, range: piece.start as usize..piece.end as usize });
        }
        Ok(Held { item: Row { parts, row_len: self.row_len }, bytes })
    }
}
