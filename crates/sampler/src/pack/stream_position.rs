//! Where a packed stream stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::numbers::Numbers;
use super::piece::Piece;
use super::stream::{PackStream, Row, in_order};
use crate::plan::pending::Pending;
use crate::plan::position::{Version, same};
use crate::plan::resuming::Resuming;
use crate::plan::stream_position::StreamIdentity;
use crate::{StreamError, StreamSample};

/// Pieces as samples and numbers, in growing order.
type Group = Vec<(u64, u32)>;

/// A place between two rows of a stream: what it holds there, and in which rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackStreamPosition {
    version: Version,
    /// The epoch.
    pub epoch: u64,
    of: StreamIdentity,
    n_windows: u64,
    finished: bool,
    /// Whether the last row is none, but what rows that were not full have left.
    has_carried: bool,
    /// The samples of the pieces, row by row: one that is cut comes for each of its pieces.
    pieces: Pending<0>,
    /// Which piece of its sample each is.
    numbers: Numbers,
}

impl PackStreamPosition {
    /// The samples that were pushed and have a piece in no row that was taken, in growing order: what a resumed stream pushes
    /// first.
    pub fn pending(&self) -> Vec<u64> {
        let mut ids = self.pieces.ids();
        ids.dedup();
        ids
    }

    /// Stands before the next epoch, when all of this one is taken.
    pub(super) const fn begin_next(&mut self) {
        (self.epoch, self.n_windows, self.finished) = (self.epoch + 1, 0, false);
    }

    /// The pieces of each row, and of what is in none, as samples and numbers.
    fn groups(&self) -> Vec<Group> {
        let mut pieces = self.pieces.in_order().iter().copied().zip(self.numbers.0.iter().copied());
        let sizes = self.pieces.batches().iter().map(|row| row.n as usize).chain([usize::MAX]);
        sizes.map(|size| pieces.by_ref().take(size).collect()).collect()
    }

    fn with_groups(self, groups: &[Group]) -> Self {
        let ids = |group: &Group| -> Vec<u64> { group.iter().map(|(id, _)| *id).collect() };
        let (waiting, rows) = groups.split_last().map_or((Vec::new(), groups), |(last, rows)| (ids(last), rows));
        let pieces = Pending::new(rows.iter().map(|row| ([], ids(row))), waiting.into_iter());
        Self { pieces, numbers: Numbers(groups.iter().flatten().map(|(_, number)| *number).collect()), ..self }
    }

    /// The same without some samples.
    fn only(&self, keep: impl Fn(u64) -> bool) -> Self {
        let mut groups = self.groups();
        for group in &mut groups {
            group.retain(|(id, _)| keep(*id));
        }
        let has_carried = self.has_carried && groups.iter().rev().nth(1).is_some_and(|it| !it.is_empty());
        let waiting = groups.pop().unwrap_or_default();
        groups.retain(|group| !group.is_empty());
        groups.push(waiting);
        Self { has_carried, ..self.clone().with_groups(&groups) }
    }
}

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
