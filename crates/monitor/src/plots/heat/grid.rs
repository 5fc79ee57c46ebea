//! The lattice of a plan: its rows, its columns, and what lies where they cross.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_types::{Bytes, Extent, StepShape};

use crate::{PlanCell, PlanView};

/// Column and row of a cell; row 0 is that of the smallest extent.
pub(super) type Place = (usize, usize);

/// The lattice of a plan.
pub(super) struct Grid<'a> {
    /// Batch sizes, by column.
    pub(super) batches: Vec<u32>,
    /// Extents, by row, from the one of the fewest positions.
    pub(super) extents: Vec<Extent>,
    cells: BTreeMap<Place, &'a PlanCell>,
    budget: Bytes,
}

impl<'a> Grid<'a> {
    pub(super) fn new(plan: &'a PlanView) -> Self {
        let shapes = || plan.cells.iter().map(|it| it.shape);
        let batches = ascending(plan.batches.iter().copied().chain(shapes().map(|it| it.samples)));
        let mut extents = ascending(plan.extents.iter().copied().chain(shapes().map(StepShape::extent)));
        extents.sort_by_key(|it| it.positions());
        let row = |extent| extents.iter().position(|it| *it == extent).unwrap_or(0);
        let column = |samples| batches.partition_point(|it| *it < samples);
        let cells = plan.cells.iter().map(|it| ((column(it.shape.samples), row(it.shape.extent())), it)).collect();
        Self { batches, extents, cells, budget: plan.budget }
    }

    /// Returns the cells there are, column by column.
    pub(super) fn cells(&self) -> impl Iterator<Item = (Place, &'a PlanCell)> {
        self.cells.iter().map(|(place, cell)| (*place, *cell))
    }

    /// Returns the largest share of the budget; 0 where there is none.
    pub(super) fn highest(&self) -> f64 {
        self.cells.values().filter_map(|it| share(it, self.budget)).fold(0.0, f64::max)
    }

    /// Whether the cell at a place is within the budget; `None` where there is no cell.
    pub(super) fn fits(&self, place: Place) -> Option<bool> {
        self.cells.get(&place).map(|it| it.fits(self.budget))
    }
}

/// Returns the share of a budget, of which 1 is all; `None` where no budget is enough.
pub(super) fn share(cell: &PlanCell, budget: Bytes) -> Option<f64> {
    // Without a budget, anything is infinitely beyond it, and nothing is within.
    cell.reserved.map(|it| if it == Bytes::ZERO { 0.0 } else { it.as_f64() / budget.as_f64() })
}

fn ascending<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.collect::<BTreeSet<_>>().into_iter().collect()
}
