//! Where a packed stream stands.

use serde::{Deserialize, Serialize};

use super::numbers::Numbers;
use crate::plan::identity::Version;
use crate::plan::pending::Pending;
use crate::plan::stream_position::StreamIdentity;

/// Pieces as samples and numbers, in growing order.
pub(super) type Group = Vec<(u64, u32)>;

/// A place between two rows of a stream: what it holds there, and in which rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackStreamPosition {
    pub(super) version: Version,
    /// The epoch.
    pub epoch: u64,
    pub(super) of: StreamIdentity,
    pub(super) n_windows: u64,
    pub(super) finished: bool,
    /// Whether the last row is none, but what rows that were not full have left.
    pub(super) has_carried: bool,
    /// The samples of the pieces, row by row: one that is cut comes for each of its pieces.
    pub(super) pieces: Pending<0>,
    /// Which piece of its sample each is.
    pub(super) numbers: Numbers,
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
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut pieces = self.pieces.in_order().iter().copied().zip(self.numbers.0.iter().copied());
        let sizes = self.pieces.batches().iter().map(|row| row.n as usize).chain([usize::MAX]);
        sizes.map(|size| pieces.by_ref().take(size).collect()).collect()
    }

    pub(super) fn with_groups(self, groups: &[Group]) -> Self {
        let ids = |group: &Group| -> Vec<u64> { group.iter().map(|(id, _)| *id).collect() };
        let (waiting, rows) = groups.split_last().map_or((Vec::new(), groups), |(last, rows)| (ids(last), rows));
        let pieces = Pending::new(rows.iter().map(|row| ([], ids(row))), waiting.into_iter());
        Self { pieces, numbers: Numbers(groups.iter().flatten().map(|(_, number)| *number).collect()), ..self }
    }

    /// The same without some samples.
    pub(super) fn only(&self, keep: impl Fn(u64) -> bool) -> Self {
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
