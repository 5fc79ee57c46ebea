//! The bar that says which colour is which share.

use super::super::canvas::{Canvas, Lettering};
use super::layout::Layout;
use super::{draw_side, ramp};

/// Width of the bar.
const WIDTH: f64 = 26.0;
/// Height of the bar where the cells need less.
const LEAST_HEIGHT: f64 = 240.0;
/// Pieces of the bar.
const N_PIECES: u32 = 100;

/// Draws the bar right of the cells, up to the budget, or beyond it where a cell is.
pub(super) fn draw(canvas: &Canvas, layout: &Layout, highest: f64) {
    let end = if highest <= 1.0 { 1.0 } else { ramp::FAR };
    let (left, right) = (layout.scale_x, layout.scale_x + WIDTH);
    let height = (layout.bottom() - layout.top).max(LEAST_HEIGHT);
    let y = |share: f64| layout.top + height * (1.0 - share / end);
    // Each piece reaches to the bottom, under the next: pieces that only touch show a seam in SVG.
    for piece in (0..N_PIECES).rev() {
        let [middle, high] = [0.5, 1.0].map(|it| end * (f64::from(piece) + it) / f64::from(N_PIECES));
        canvas.rectangle([(left, y(high)), (right, y(0.0))], ramp::color(middle));
    }
    let ticks = [(0.0, "0"), (0.25, "25"), (0.5, "50"), (0.75, "75"), (1.0, "100"), (1.5, "150"), (ramp::FAR, "≥ 200")];
    for (share, label) in ticks.into_iter().filter(|it| it.0 <= end) {
        // The uppermost label keeps away from the heading.
        canvas.text(label, (right + 10.0, y(share).max(layout.top + 8.0)), Lettering::QUIET);
    }
    if 1.0 < end {
        draw_side(canvas, [(left, y(1.0)), (right, y(1.0))]);
    }
}
