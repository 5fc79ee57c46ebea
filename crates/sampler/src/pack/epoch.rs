//! An epoch of rows, window by window.

use super::fill::Filling;
use super::load::{PackLoad, PackRule};
use super::piece::Piece;
use super::planner::PackPlanner;
use super::position::{PackPosition, Progress};
use super::rows::{PackedRows, load};
use crate::hash::mix;
use crate::plan::identity::{Version, same, within};
use crate::{PackError, PositionError};

/// The rows of one epoch in order, of which one window is packed at a time.
#[derive(Clone, Debug)]
pub struct PackedEpoch {
    planner: PackPlanner,
    /// Before the window, and after it.
    before: Progress,
    after: Progress,
    rows: PackedRows,
    /// Rows of the window that were taken, and what they hold.
    n_taken: usize,
    digest: u64,
    /// Room that is used again, and says nothing of where the epoch stands.
    filling: Filling,
}

impl PartialEq for PackedEpoch {
    fn eq(&self, other: &Self) -> bool {
        self.planner == other.planner && self.position() == other.position()
    }
}

impl PackPlanner {
    /// Starts an epoch that is packed window by window.
    pub fn epoch(&self, epoch: u64) -> PackedEpoch {
        PackedEpoch::new(self.clone(), self.start(epoch))
    }

    /// Goes on where a position was taken; packs one window at most.
    ///
    /// # Errors
    ///
    /// [`PositionError::OtherPlan`] when the position was taken with other samples or another configuration;
    /// [`PositionError::BeyondEpoch`] when it is none that the epoch reaches.
    pub fn resume(&self, position: &PackPosition) -> Result<PackedEpoch, PositionError> {
        PackedEpoch::resume(self.clone(), position)
    }

    /// What it goes on with at a position.
    fn progress_at(&self, position: &PackPosition) -> Result<Progress, PositionError> {
        let here = self.identity();
        position.of.check(&here)?;
        self.check_drawn(&position.drawn)?;
        for key in position.carried.0.iter() {
            self.piece(*key).ok_or(PositionError::BeyondEpoch { key: "carried", value: *key, most: here.n_samples })?;
        }
        Ok(Progress { epoch: position.epoch, drawn: position.drawn.clone(), carried: position.carried.clone() })
    }
}

impl PackedEpoch {
    fn new(planner: PackPlanner, progress: Progress) -> Self {
        let rows = PackedRows::new(planner.config().row_len);
        let (before, after) = (progress.clone(), progress);
        Self { planner, before, after, rows, n_taken: 0, digest: 0, filling: Filling::new() }
    }

    fn resume(planner: PackPlanner, position: &PackPosition) -> Result<Self, PositionError> {
        let progress = planner.progress_at(position)?;
        let mut epoch = Self::new(planner, progress);
        if position.row > 0 {
            epoch.plan_window();
        }
        within("row", position.row, epoch.rows.len() as u64)?;
        for _ in 0..position.row {
            epoch.take();
        }
        same("fingerprint of the rows so far", position.digest, epoch.digest)?;
        Ok(epoch)
    }

    /// The epoch's number.
    pub const fn number(&self) -> u64 {
        self.before.epoch
    }

    /// Takes the rows that come next and fit together, or `None` when the epoch has no more.
    ///
    /// # Errors
    ///
    /// [`PackError::RowLoad`] when the next row does not fit even alone; the epoch stays where it is.
    /// A rule that [`PackPlanner::check`] accepts has room for every row.
    pub fn next_batch(&mut self, rule: &impl PackRule) -> Result<Option<PackedRows>, PackError> {
        self.batch_while(rule, |_| true)
    }

    /// The same, up to the first row that is not wanted; each row that fits is asked about once.
    pub(super) fn batch_while(
        &mut self,
        rule: &impl PackRule,
        mut is_wanted: impl FnMut(&[Piece]) -> bool,
    ) -> Result<Option<PackedRows>, PackError> {
        let mut batch = PackedRows::new(self.rows.row_len());
        let mut sum = PackLoad::default();
        while let Some(row) = self.peek() {
            let with = sum + load(batch.row_len(), row);
            if !rule.fits(with) || !is_wanted(row) {
                break;
            }
            batch.push(row);
            sum = with;
            self.take();
        }
        match (batch.is_empty(), self.peek()) {
            (true, Some(row)) => {
                let PackLoad { positions, squares, .. } = load(batch.row_len(), row);
                Err(PackError::RowLoad { positions, squares })
            }
            (true, None) => Ok(None),
            (false, _) => Ok(Some(batch)),
        }
    }

    /// The row that comes next, if there is one.
    pub fn peek(&mut self) -> Option<&[Piece]> {
        while self.n_taken == self.rows.len() {
            if !self.plan_window() {
                return None;
            }
        }
        self.rows.get(self.n_taken)
    }

    /// Where the epoch stands; [`PackPlanner::resume`] of an equal planner goes on there.
    pub fn position(&self) -> PackPosition {
        let at_end = self.n_taken == self.rows.len();
        let Progress { epoch, drawn, carried } = if at_end { self.after.clone() } else { self.before.clone() };
        let (row, digest) = if at_end { (0, 0) } else { (self.n_taken as u64, self.digest) };
        PackPosition { version: Version, epoch, row, of: self.planner.identity(), drawn, carried, digest }
    }

    fn plan_window(&mut self) -> bool {
        self.before.clone_from(&self.after);
        (self.n_taken, self.digest) = (0, 0);
        self.planner.plan_window(&mut self.after, &mut self.filling, &mut self.rows)
    }

    /// Counts the next row of the window as taken.
    pub(super) fn take(&mut self) {
        let first = self.rows.get(self.n_taken).and_then(|row| Some((row.len() as u64, row.first()?)));
        let word = first.map_or(0, |(n, piece)| mix(n << 32 | u64::from(piece.id)) ^ u64::from(piece.start));
        self.digest = mix(self.digest ^ word);
        self.n_taken += 1;
    }
}
