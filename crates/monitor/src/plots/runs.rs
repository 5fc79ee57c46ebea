//! One number of the steps of several runs, on the same axes.

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Color, Lettering, Stroke, palette};
use super::header::{MARGIN, Mark, legend_below};
use super::panel::{Panel, stack};
use super::series::{smooth, thin};
use crate::history::History;
use crate::series::Series;

/// What tells runs apart; those after them are dashed.
const COLORS: [Color; 5] = [palette::BLUE, palette::VERMILLION, palette::GREEN, palette::ORANGE, palette::PURPLE];

/// Smoothed curves of several runs, each with its name.
pub(super) struct Beside<'a> {
    pub(super) runs: &'a [(&'a str, &'a History)],
    pub(super) heading: &'static str,
    pub(super) series: fn(&History) -> &Series,
}

impl Figure for Beside<'_> {
    fn draw(&self, canvas: &Canvas) {
        // A mark and the gap after it.
        let room = canvas.size.0 - 2.0 * MARGIN - 68.0;
        let name = |it: &str| Lettering::LABEL.fitting(it.to_owned(), room);
        let legend: Vec<_> = (0..).zip(self.runs).map(|(at, it)| (Mark::Line(stroke(at)), name(it.0))).collect();
        let top = legend_below(canvas, 0.0, &legend);
        let [place] = stack(canvas, top, [1.0]);
        let curves: Vec<_> = self.runs.iter().map(|it| smooth(&(self.series)(it.1).means())).collect();
        let all = || curves.iter().flatten();
        let x = Axis::steps(all().map(|it| it.0 + 1.0).fold(1.0, f64::max), 8);
        let y = Axis::around(all().map(|it| it.1), 5);
        let logarithmic = if y.is_logarithmic() { " (logarithmic)" } else { "" };
        let panel = Panel::new(format!("{}{logarithmic}, smoothed", self.heading), &x, y, place);
        panel.frame(canvas, true);
        if all().next().is_none() {
            return panel.remark(canvas, "no step yet");
        }
        for (at, curve) in curves.into_iter().enumerate() {
            panel.line(canvas, &thin(curve), stroke(at));
        }
    }
}

fn stroke(at: usize) -> Stroke {
    let color = COLORS[at % COLORS.len()];
    if at < COLORS.len() { Stroke::solid(color, 2.4) } else { Stroke::dashed(color, 2.4) }
}
