//! What each step took and did: throughput, the norm of its gradient, its learning rate.

use plimsoll_types::StepDone;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{Panel, Place, stack};
use super::series::{smooth, thin};
use crate::metrics::rate;
use crate::run::Run;
use crate::work::Work;

/// One number of each step.
pub(super) struct Series {
    heading: &'static str,
    value: fn(&StepDone) -> Option<f64>,
    /// Whether single steps say little, and the smoothed line is what counts.
    is_noisy: bool,
}

/// What a step is drawn of.
pub(super) const ALL: [Series; 3] = [
    Series { heading: "samples per second", value: |it| rate(it.n_samples(), it.seconds), is_noisy: true },
    Series { heading: "norm of the gradient", value: |it| Some(it.gradient_norm), is_noisy: true },
    Series { heading: "learning rate", value: |it| Some(it.learning_rate), is_noisy: false },
];

/// The part of the positions that is padding, where the log says it.
pub(super) const PADDING: [Series; 1] = [Series {
    heading: "padding (% of the positions)",
    value: |it| Work::of(std::iter::once(it)).map(|it| 100.0 * it.padding),
    is_noisy: true,
}];

/// Curves over the steps, one below the other.
pub(super) struct Curves<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) shown: &'a [Series],
}

const STEP: Stroke = Stroke::solid(palette::PALE_SKY, 1.5);
const SMOOTHED: Stroke = Stroke::solid(palette::BLUE, 3.0);

impl Figure for Curves<'_> {
    fn draw(&self, canvas: &Canvas) {
        let end = self.run.steps().map(|it| it.step + 1).max().unwrap_or(1) as f64;
        let x = Axis::steps(end, 8);
        if let [one] = self.shown {
            let [place] = stack(canvas, 0.0, [1.0]);
            return self.draw_series(canvas, one, &x, (place, true));
        }
        let legend = [(Mark::Line(STEP), "a step".to_owned()), (Mark::Line(SMOOTHED), "smoothed".to_owned())];
        let top = header(canvas, "Steps", self.run.subtitle(), &legend);
        let places = stack(canvas, top, [0.36, 0.36, 0.28]);
        for (at, (it, place)) in self.shown.iter().zip(places).enumerate() {
            self.draw_series(canvas, it, &x, (place, at + 1 == self.shown.len()));
        }
    }
}

impl Curves<'_> {
    fn draw_series(&self, canvas: &Canvas, series: &Series, x: &Axis, (place, is_lowest): (Place, bool)) {
        let values = self.run.steps().filter_map(|it| Some((it.step as f64, (series.value)(it)?)));
        let points: Vec<Point> = values.filter(|it| it.1.is_finite()).collect();
        let y = Axis::around(points.iter().map(|it| it.1), 5);
        let logarithmic = if y.is_logarithmic() { " (logarithmic)" } else { "" };
        let panel = Panel::new(format!("{}{logarithmic}", series.heading), x, y, place);
        panel.frame(canvas, is_lowest);
        if points.is_empty() {
            return panel.remark(canvas, "the log does not say");
        }
        let smoothed = if series.is_noisy { smooth(&points) } else { points.clone() };
        if series.is_noisy {
            panel.dots(canvas, &points, STEP.color);
            panel.line(canvas, &thin(points), STEP);
        } else if points.len() == 1 {
            panel.dots(canvas, &points, SMOOTHED.color);
        }
        panel.line(canvas, &thin(smoothed), SMOOTHED);
    }
}
