//! Loss and validation metric over the steps.

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{Panel, Place, stack};
use super::series::{smooth, thin};
use crate::history::History;
use crate::series::Series;

/// The training curves of a run.
pub(super) struct Curves<'a>(pub(super) &'a History);

impl Figure for Curves<'_> {
    fn draw(&self, canvas: &Canvas) {
        let style = Style::new();
        let mut legend = vec![
            (Mark::Line(style.loss), "loss of a step".to_owned()),
            (Mark::Line(style.smoothed), "smoothed loss".to_owned()),
        ];
        if self.0.learning.last().is_some() {
            legend.push((Mark::Line(style.metric), "validation metric".to_owned()));
            legend.push((Mark::Line(style.baseline), "its baseline".to_owned()));
        }
        let top = header(canvas, "Training curves", self.0.subtitle(), &legend);
        let [upper, lower] = stack(canvas, top, [0.58, 0.42]);
        let x = Axis::steps(self.end(), 8);
        self.draw_loss(canvas, &style, &x, upper);
        self.draw_metric(canvas, &style, &x, lower);
    }
}

struct Style {
    loss: Stroke,
    smoothed: Stroke,
    metric: Stroke,
    baseline: Stroke,
}

impl Style {
    fn new() -> Self {
        Self {
            loss: Stroke::solid(palette::PALE_SKY, 1.5),
            smoothed: Stroke::solid(palette::BLUE, 3.0),
            metric: Stroke::solid(palette::GREEN, 2.6),
            baseline: Stroke::dashed(palette::GREY, 2.0),
        }
    }
}

impl Curves<'_> {
    fn draw_loss(&self, canvas: &Canvas, style: &Style, x: &Axis, place: Place) {
        let series = &self.0.curves.loss;
        let losses = series.points();
        let y = Axis::around(losses.iter().map(|it| it.1), 8);
        let heading = if y.is_logarithmic() { "training loss (logarithmic)" } else { "training loss" };
        let panel = Panel::new(heading, x, y, place);
        panel.frame(canvas, false);
        if losses.is_empty() {
            return panel.remark(canvas, "no step yet");
        }
        let smoothed = smooth(&series.means());
        panel.dots(canvas, &losses, palette::PALE_SKY);
        panel.line(canvas, &thin(losses), style.loss);
        panel.line(canvas, &thin(smoothed), style.smoothed);
    }

    fn draw_metric(&self, canvas: &Canvas, style: &Style, x: &Axis, place: Place) {
        let learning = &self.0.learning;
        let values = |of: &Series| thin(of.points());
        let (metric, baseline) = (values(&learning.metric), values(&learning.baseline));
        let y = Axis::around(metric.iter().chain(&baseline).map(|it| it.1), 6);
        let name = learning.last().map_or("metric", |it| it.metric_name.as_str());
        let panel = Panel::new(format!("validation: {name}"), x, y, place);
        panel.frame(canvas, true);
        if metric.is_empty() {
            return panel.remark(canvas, "no validation yet");
        }
        // The baseline needs no training, so it holds over the whole run.
        panel.line(canvas, &throughout(baseline, self.end()), style.baseline);
        panel.line(canvas, &metric, style.metric);
        panel.dots(canvas, &metric, palette::GREEN);
    }

    fn end(&self) -> f64 {
        self.0.n_done().max(self.0.learning.last().map_or(0, |it| it.step)).max(1) as f64
    }
}

/// Extends a line to the start and the end of a run.
fn throughout(mut points: Vec<Point>, end: f64) -> Vec<Point> {
    if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) {
        points.insert(0, (0.0, first.1));
        points.push((end, last.1));
    }
    points
}
