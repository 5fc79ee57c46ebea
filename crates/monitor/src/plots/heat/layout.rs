//! Where the parts of a heat map lie, in pixels.

use super::super::canvas::Point;
use super::super::panel::{FOOT, HEAD, LEFT as PANEL_LEFT};
use super::grid::{Grid, Place};

/// Left edge of the cells: that of the panels of the other pictures.
pub(super) const LEFT: f64 = PANEL_LEFT;
/// A cell is no larger than this, so that a plan of few cells does not look like one of much memory.
const LARGEST_CELL: (f64, f64) = (180.0, 110.0);
/// Room between the cells and their scale.
const GAP_TO_SCALE: f64 = 36.0;
/// Left edge of the scale: at least so far to the right that the edge has room for its name, and at least so
/// far from the right edge of the picture that the scale has room for its labels.
const SCALE_X: (f64, f64) = (440.0, 134.0);
/// The smallest cell with room for a sign beside its number.
const ROOM_FOR_SIGN: (f64, f64) = (24.0, 44.0);
/// A cell of at least this size has a gap to the next.
const GAP_FROM: f64 = 9.0;

/// Where the cells and their scale lie.
pub(super) struct Layout {
    pub(super) top: f64,
    /// Left edge of the scale.
    pub(super) scale_x: f64,
    /// Size of a cell.
    pub(super) cell: (f64, f64),
    n_rows: usize,
}

impl Layout {
    /// Makes the cells as large as there is room below `top`, up to a limit.
    pub(super) fn new(grid: &Grid<'_>, (width, height): (f64, f64), top: f64) -> Self {
        let top = top + HEAD;
        let room = (width - SCALE_X.1 - GAP_TO_SCALE - LEFT, height - FOOT - top);
        let fill = |room: f64, n: usize, largest: f64| (room / n as f64).min(largest);
        let cell = (fill(room.0, grid.batches.len(), LARGEST_CELL.0), fill(room.1, grid.extents.len(), LARGEST_CELL.1));
        let right = LEFT + grid.batches.len() as f64 * cell.0;
        let scale_x = (right + GAP_TO_SCALE).max(SCALE_X.0);
        Self { top, scale_x, cell, n_rows: grid.extents.len() }
    }

    /// Whether a cell has room for a sign beside its number.
    pub(super) fn has_room_for_signs(&self) -> bool {
        ROOM_FOR_SIGN.0 <= self.cell.0 && ROOM_FOR_SIGN.1 <= self.cell.1
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.n_rows as f64 * self.cell.1
    }

    /// Returns the middle of a cell.
    pub(super) fn middle_of(&self, place: Place) -> Point {
        middle(self.corners(place))
    }

    /// Returns the position of a corner of the lattice, counted from the lower left.
    pub(super) fn corner(&self, (column, row): Place) -> Point {
        (LEFT + column as f64 * self.cell.0, self.bottom() - row as f64 * self.cell.1)
    }

    /// Returns the upper left and the lower right corner of a cell, less the gap to its neighbours.
    pub(super) fn corners(&self, (column, row): Place) -> [Point; 2] {
        let ((left, top), (right, bottom)) = (self.corner((column, row + 1)), self.corner((column + 1, row)));
        let gap = if GAP_FROM <= self.cell.0.min(self.cell.1) { 0.5 } else { 0.0 };
        [(left + gap, top + gap), (right - gap, bottom - gap)]
    }
}

/// Returns the middle between two corners.
pub(super) fn middle([(left, top), (right, bottom)]: [Point; 2]) -> Point {
    (f64::midpoint(left, right), f64::midpoint(top, bottom))
}

/// Returns every how many labels, each so wide, is shown where they lie so far apart.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a cast saturates")]
pub(super) fn every(label: f64, distance: f64) -> usize {
    ((label / distance).ceil() as usize).max(1)
}
