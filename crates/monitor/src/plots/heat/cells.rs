//! The cells: colour, number, and the sign of where the figures come from.

use plimsoll_types::Bytes;

use super::super::canvas::{Anchor, Canvas, Lettering, Point, palette};
use super::super::sign::draw_sign;
use super::grid::{Grid, share};
use super::layout::{Layout, middle};
use super::{never, ramp};
use crate::PlanCell;

/// Type of the numbers, from the largest that is tried to the smallest that can be read.
const SIZES: [f64; 5] = [22.0, 19.0, 16.0, 14.0, 12.0];
/// Pixels around a number, across and down.
const ROOM_AROUND: (f64, f64) = (10.0, 2.0);
/// A number of more digits says no more than the colour does.
const MOST_DIGITS: usize = 3;
/// From this lightness on, of 100, ink is read better than white.
const LIGHT: f64 = 55.0;

/// The cells of a plan at their places.
pub(super) struct Cells<'a> {
    pub(super) budget: Bytes,
    pub(super) grid: &'a Grid<'a>,
    pub(super) layout: &'a Layout,
    /// Whether each cell shows where its figures come from.
    pub(super) signed: bool,
}

impl Cells<'_> {
    pub(super) fn draw(&self, canvas: &Canvas) {
        let size = self.size();
        self.grid.cells().for_each(|(place, cell)| self.draw_cell(canvas, cell, self.layout.corners(place), size));
    }

    fn draw_cell(&self, canvas: &Canvas, cell: &PlanCell, corners: [Point; 2], size: Option<f64>) {
        let Some(share) = share(cell, self.budget) else { return canvas.hatched(corners, never()) };
        let color = ramp::color(share);
        canvas.rectangle(corners, color);
        let ink = if ramp::lightness(color) < LIGHT { palette::WHITE } else { palette::INK };
        if let (Some(size), Some(number)) = (size, self.number(cell)) {
            let lettering = Lettering::LABEL.sized(size).in_color(ink).at(Anchor::Middle);
            canvas.text(&number, middle(corners), lettering);
        }
        let upper_right = (corners[1].0 - 8.0, corners[0].1 + 8.0);
        if self.signed {
            draw_sign(canvas, cell.source, upper_right, ink);
        }
    }

    /// Returns the largest type in which every number has room in its cell.
    fn size(&self) -> Option<f64> {
        let widest = self.grid.cells().filter_map(|it| self.number(it.1)).max_by_key(String::len)?;
        let fits = |size: &f64| {
            let width = Lettering::LABEL.sized(*size).width(&widest);
            width + ROOM_AROUND.0 <= self.layout.cell.0 && size + ROOM_AROUND.1 <= self.layout.cell.1
        };
        SIZES.into_iter().find(fits)
    }

    fn number(&self, cell: &PlanCell) -> Option<String> {
        cell.percent(self.budget, 0).filter(|it| it.len() <= MOST_DIGITS)
    }
}
