//! From a packed stream to its position, and back: putting the pieces where they were.

use std::collections::BTreeMap;

use super::numbers::Numbers;
use super::piece::Piece;
use super::stream::{PackStream, Row, in_order};
use super::stream_position::{Group, PackStreamPosition};
use crate::plan::identity::{Version, same};
use crate::plan::pending::Pending;
use crate::plan::resuming::Resuming;
use crate::{StreamError, StreamSample};

impl PackStream {
    /// Goes on where a position was taken, from an empty buffer, once its pending samples are pushed again, in any order
    /// and before all others: the rows are those of a stream that was not interrupted.
    ///
    /// # Errors
    ///
    /// [`crate::PositionError::OtherPlan`] when the position was taken with another configuration.
    pub fn resume(mut self, position: &PackStreamPosition) -> Result<Self, StreamError> {
        position.of.check(self.identity)?;
        (self.epoch, self.n_windows) = (position.epoch, position.n_windows);
        same("pieces", position.numbers.0.len() as u64, position.pieces.len() as u64)?;
        let pending = position.pending();
        if pending.is_empty() {
            self.finished = position.finished;
        } else {
            self.resuming = Some(Box::new(Resuming::new(position.clone(), pending)));
        }
        Ok(self)
    }

    /// The samples of a position that have not come yet, in growing order.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        self.resuming.iter().flat_map(|it| &it.missing).copied()
    }

    /// Goes on without a sample of a position, which cannot be read any more say; says whether it was missing.
    pub fn leave_out(&mut self, id: u64) -> bool {
        let was_missing = self.resuming.as_mut().is_some_and(|it| it.missing.remove(&id));
        self.rebuild();
        was_missing
    }

    /// Where the stream stands; [`PackStream::resume`] goes on there.
    pub fn position(&self) -> PackStreamPosition {
        self.position_with(std::iter::empty())
    }

    /// The same when rows that were taken are taken back.
    pub(super) fn position_with<'a>(&'a self, taken: impl Iterator<Item = &'a Row>) -> PackStreamPosition {
        if let Some(resuming) = &self.resuming {
            return resuming.position.only(|id| resuming.may_have(id));
        }
        let waiting = [&self.waiting];
        let carried = Some(&self.carried).filter(|it| !it.is_empty());
        let rows = taken.chain(&self.ready).chain(carried).chain(waiting);
        let groups: Vec<_> = rows.map(|row| self.group(row)).collect();
        let Self { epoch, n_windows, finished, .. } = *self;
        let (of, has_carried) = (self.identity, carried.is_some());
        let (pieces, numbers) = (Pending::default(), Numbers::default());
        PackStreamPosition { version: Version, epoch, of, n_windows, finished, has_carried, pieces, numbers }
            .with_groups(&groups)
    }

    fn group(&self, row: &Row) -> Group {
        let mut group: Group = row.iter().map(|piece| (piece.id, self.config.number(piece.start))).collect();
        group.sort_unstable();
        group
    }

    /// Puts the pieces of a position where they were, once all of their samples are there.
    pub(super) fn rebuild(&mut self) {
        let Some(resuming) = self.resuming.take_if(|it| it.missing.is_empty()) else { return };
        let Resuming { position, held, .. } = *resuming;
        let mut rows: Vec<Row> = position.groups().iter().map(|group| self.row(group, &held)).collect();
        self.waiting = rows.pop().unwrap_or_default();
        self.carried = if position.has_carried { rows.pop().unwrap_or_default() } else { Row::new() };
        for row in rows.into_iter().filter(|row| !row.is_empty()) {
            // A sample that is longer by now has no place in its row.
            if self.config.fits(&row) {
                self.ready.push_back(in_order(row, self.config.seed));
            } else {
                self.waiting.extend(row);
            }
        }
        self.count_open();
        self.finished = position.finished;
        if self.finished {
            self.pack(true);
        } else {
            self.pack_half();
        }
    }

    /// The pieces of samples that have come back.
    fn row(&mut self, group: &Group, held: &BTreeMap<u64, StreamSample<1>>) -> Row {
        let mut row = Row::new();
        for (id, number) in group {
            let Some(sample) = held.get(id) else { continue };
            let [length] = sample.lengths;
            if *number < self.config.n_pieces(length) {
                let (start, end) = self.config.piece(length, *number);
                self.keep(*sample);
                row.push(Piece { id: *id, start, end });
            }
        }
        row
    }
}
