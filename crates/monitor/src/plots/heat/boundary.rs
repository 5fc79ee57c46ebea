//! Where the budget ends, along the sides of cells.

use super::grid::{Grid, Place};

/// A side of a cell, from corner to corner; corner (0, 0) is the lower left one of the first row and column.
pub(super) type Side = [Place; 2];

/// Returns the sides between cells that fit and cells that do not.
///
/// Places without a cell lie on neither side: a side is drawn at the last cell that is known to fit.
pub(super) fn boundary(grid: &Grid<'_>) -> Vec<Side> {
    let (n_columns, n_rows) = (grid.batches.len(), grid.extents.len());
    let mut sides = Vec::new();
    for row in 0..n_rows {
        let changes = changes((0..n_columns).map(|column| grid.fits((column, row))));
        sides.extend(changes.into_iter().map(|column| [(column, row), (column, row + 1)]));
    }
    for column in 0..n_columns {
        let changes = changes((0..n_rows).map(|row| grid.fits((column, row))));
        sides.extend(changes.into_iter().map(|row| [(column, row), (column + 1, row)]));
    }
    sides
}

/// Returns where along a line of places what fits ends or begins.
fn changes(line: impl Iterator<Item = Option<bool>>) -> Vec<usize> {
    let known: Vec<(usize, bool)> = line.enumerate().filter_map(|(at, it)| it.map(|it| (at, it))).collect();
    let change = |pair: &[(usize, bool)]| match pair {
        [(last, true), (_, false)] => Some(last + 1),
        [(_, false), (first, true)] => Some(*first),
        _ => None,
    };
    known.windows(2).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Bytes, StepShape};

    use super::*;
    use crate::{PlanCell, PlanSource, PlanView};

    /// Draws the rows of a picture from above: `+` fits, `-` does not, `!` never does, anything else is no cell.
    fn sides(picture: &[&str]) -> Vec<Side> {
        let budget = Bytes::mib(100);
        let reserved = |sign: char| match sign {
            '+' => Some(Some(budget)),
            '-' => Some(Some(budget.saturating_add(Bytes(1)))),
            '!' => Some(None),
            _ => None,
        };
        let mut plan = PlanView { budget, ..PlanView::default() };
        for (edge, signs) in (1..).zip(picture.iter().rev()) {
            for (samples, sign) in (1..).zip(signs.chars()) {
                let shape = StepShape::new(samples, 16 * edge);
                plan.batches.push(shape.samples);
                plan.extents.push(shape.extent());
                let cell = |reserved| PlanCell { shape, reserved, in_use: None, source: PlanSource::DryRun };
                plan.cells.extend(reserved(sign).map(cell));
            }
        }
        boundary(&Grid::new(&plan))
    }

    #[test]
    fn the_boundary_lies_between_what_fits_and_what_does_not() {
        assert_eq!(
            sides(&["+--", "++!"]),
            [[(2, 0), (2, 1)], [(1, 1), (1, 2)], [(1, 1), (2, 1)]],
            "a staircase from below: beside the second cell, above it, beside the first of the upper row"
        );
    }

    #[test]
    fn the_boundary_stays_at_what_is_known_to_fit() {
        assert_eq!(sides(&["+  -"]), [[(1, 0), (1, 1)]]);
        assert_eq!(sides(&["-  +"]), [[(3, 0), (3, 1)]]);
        assert_eq!(sides(&["- ", "  ", "+ "]), [[(0, 1), (1, 1)]]);
    }

    #[test]
    fn a_budget_that_ends_nowhere_has_no_boundary() {
        for picture in [&["++", "++"][..], &["--", "-!"], &["+ ", " -"], &["  "], &[]] {
            assert_eq!(sides(picture), [] as [Side; 0], "{picture:?}");
        }
    }
}
