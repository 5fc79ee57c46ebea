//! What each step took and did: throughput, the norm of its gradient, its learning rate.

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{Panel, Place, stack};
use super::series::{smooth, thin};
use crate::history::{self, History};
use crate::series::Series;

/// One number of each step.
pub(super) struct Curve {
    heading: &'static str,
    series: fn(&history::Curves) -> &Series,
    /// Whether single steps say little, and the smoothed line is what counts.
    is_noisy: bool,
}

/// What a step is drawn of.
pub(super) const ALL: [Curve; 3] = [
    Curve { heading: "samples per second", series: |it| &it.samples_per_second, is_noisy: true },
    Curve { heading: "norm of the gradient", series: |it| &it.gradient_norm, is_noisy: true },
    Curve { heading: "learning rate", series: |it| &it.learning_rate, is_noisy: false },
];

/// The part of the positions that is padding, where the log says it.
pub(super) const PADDING: [Curve; 1] =
    [Curve { heading: "padding (% of the positions)", series: |it| &it.padding, is_noisy: true }];

/// Curves over the steps, one below the other.
pub(super) struct Curves<'a> {
    pub(super) history: &'a History,
    pub(super) shown: &'a [Curve],
}

const STEP: Stroke = Stroke::solid(palette::PALE_SKY, 1.5);
const SMOOTHED: Stroke = Stroke::solid(palette::BLUE, 3.0);

impl Figure for Curves<'_> {
    fn draw(&self, canvas: &Canvas) {
        let end = self.history.n_done().max(1) as f64;
        let x = Axis::steps(end, 8);
        if let [one] = self.shown {
            let [place] = stack(canvas, 0.0, [1.0]);
            return self.draw_series(canvas, one, &x, (place, true));
        }
        let legend = [(Mark::Line(STEP), "a step".to_owned()), (Mark::Line(SMOOTHED), "smoothed".to_owned())];
        let top = header(canvas, "Steps", self.history.subtitle(), &legend);
        let places = stack(canvas, top, [0.36, 0.36, 0.28]);
        for (at, (it, place)) in self.shown.iter().zip(places).enumerate() {
            self.draw_series(canvas, it, &x, (place, at + 1 == self.shown.len()));
        }
    }
}

impl Curves<'_> {
    fn draw_series(&self, canvas: &Canvas, curve: &Curve, x: &Axis, (place, is_lowest): (Place, bool)) {
        let series = (curve.series)(&self.history.curves);
        let points = series.points();
        let y = Axis::around(points.iter().map(|it| it.1), 5);
        let logarithmic = if y.is_logarithmic() { " (logarithmic)" } else { "" };
        let panel = Panel::new(format!("{}{logarithmic}", curve.heading), x, y, place);
        panel.frame(canvas, is_lowest);
        if points.is_empty() {
            return panel.remark(canvas, "the log does not say");
        }
        let smoothed = if curve.is_noisy { smooth(&series.means()) } else { points.clone() };
        if curve.is_noisy {
            panel.dots(canvas, &points, STEP.color);
            panel.line(canvas, &thin(points), STEP);
        } else if points.len() == 1 {
            panel.dots(canvas, &points, SMOOTHED.color);
        }
        panel.line(canvas, &thin(smoothed), SMOOTHED);
    }
}
