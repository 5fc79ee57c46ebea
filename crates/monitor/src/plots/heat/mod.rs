//! A memory plan as a grid of cells, batch by edge, coloured by their share of the budget.

mod boundary;
mod cells;
mod grid;
mod layout;
mod ramp;
mod scale;

use super::canvas::{Anchor, Canvas, Lettering, Point, Stroke, palette};
use super::header::{MARGIN, Mark, header};
use super::{Figure, SIZE};
use crate::{PlanSource, PlanView};
use boundary::boundary;
use cells::Cells;
use grid::Grid;
use layout::{LEFT, Layout, every};

/// The heat map of a memory plan.
pub(super) struct HeatMap<'a>(pub(super) &'a PlanView);

/// What the numbers and colours are.
const SHARE: &str = "share of the budget (%)";

/// Where a header ends whose legend has one row, in pixels: how much room there is must be known before the legend is.
const USUAL_TOP: f64 = 118.0;

impl Figure for HeatMap<'_> {
    fn draw(&self, canvas: &Canvas) {
        let grid = Grid::new(self.0);
        let (sides, signed) = (boundary(&grid), self.signed(&grid));
        let top = header(canvas, "Memory plan", self.subtitle(), &self.legend(!sides.is_empty(), signed));
        if self.0.cells.is_empty() {
            return canvas.text("no cell", (MARGIN, top + 23.0), Lettering::HEADING);
        }
        let layout = Layout::new(&grid, canvas.size, top);
        self.draw_names(canvas, &layout);
        draw_labels(canvas, &grid, &layout);
        Cells { budget: self.0.budget, grid: &grid, layout: &layout, signed }.draw(canvas);
        for it in sides {
            draw_side(canvas, it.map(|corner| layout.corner(corner)));
        }
        scale::draw(canvas, &layout, grid.highest());
    }
}

/// Where the budget ends.
fn limit() -> Stroke {
    Stroke::solid(palette::VERMILLION, 4.0)
}

/// What no budget is enough for.
fn never() -> Stroke {
    Stroke::solid(palette::GREY, 1.0)
}

impl HeatMap<'_> {
    fn subtitle(&self) -> String {
        let Self(PlanView { job, device, capacity, budget, .. }) = self;
        let source = match self.sources()[..] {
            [only] => format!(", from a {only}"),
            _ => String::new(),
        };
        format!("{job} on {device}: budget {budget} of capacity {capacity}{source}")
    }

    fn sources(&self) -> Vec<PlanSource> {
        PlanSource::ALL.into_iter().filter(|source| self.0.cells.iter().any(|it| it.source == *source)).collect()
    }

    /// Whether cells show where their figures come from: where that differs, and there is room.
    fn signed(&self, grid: &Grid<'_>) -> bool {
        1 < self.sources().len() && Layout::new(grid, SIZE, USUAL_TOP).has_room_for_signs()
    }

    fn legend(&self, limited: bool, signed: bool) -> Vec<(Mark, String)> {
        let mut legend = Vec::new();
        if limited {
            legend.push((Mark::Line(limit()), "the budget ends".to_owned()));
        }
        if self.0.cells.iter().any(|it| it.reserved.is_none()) {
            legend.push((Mark::Hatched(never()), "never fits".to_owned()));
        }
        let sources = if signed { self.sources() } else { Vec::new() };
        legend.extend(sources.into_iter().map(|it| (Mark::Source(it), it.to_string())));
        legend
    }

    fn draw_names(&self, canvas: &Canvas, layout: &Layout) {
        let width = Lettering::HEADING.width(SHARE);
        let share_x = layout.scale_x.min(canvas.size.0 - MARGIN - width);
        let room = share_x - MARGIN - 20.0;
        let edge_name = Lettering::HEADING.fitting(self.0.edge_name.clone(), room);
        canvas.text(&edge_name, (MARGIN, layout.top - 23.0), Lettering::HEADING);
        canvas.text(SHARE, (share_x, layout.top - 23.0), Lettering::HEADING);
        canvas.text("batch (samples)", (LEFT, layout.bottom() + 46.0), Lettering::HEADING);
    }
}

fn draw_labels(canvas: &Canvas, grid: &Grid<'_>, layout: &Layout) {
    let widest = grid.batches.iter().map(|it| Lettering::QUIET.width(&it.to_string())).fold(0.0, f64::max);
    for column in (0..grid.batches.len()).step_by(every(widest + 8.0, layout.cell.0)) {
        let x = layout.middle_of((column, 0)).0;
        let label = grid.batches[column].to_string();
        canvas.text(&label, (x, layout.bottom() + 18.0), Lettering::QUIET.at(Anchor::Middle));
    }
    for row in (0..grid.extents.len()).step_by(every(24.0, layout.cell.1)) {
        let y = layout.middle_of((0, row)).1;
        canvas.text(&grid.extents[row].to_string(), (LEFT - 10.0, y), Lettering::QUIET.at(Anchor::Right));
    }
}

/// Draws a piece of the boundary with round ends, so that pieces meet without notches.
fn draw_side(canvas: &Canvas, ends: [Point; 2]) {
    canvas.line(&ends, limit());
    for it in ends {
        canvas.dot(it, limit().width / 2.0, palette::VERMILLION);
    }
}
