//! Loss and validation metric over the steps.

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{Panel, Place, stack};
use super::series::{smooth, thin};
use crate::run::Run;

/// The training curves of a run.
pub(super) struct Curves<'a>(pub(super) &'a Run<'a>);

impl Figure for Curves<'_> {
    fn draw(&self, canvas: &Canvas) {
        let style = Style::new();
        let mut legend = vec![
            (Mark::Line(style.loss), "loss of a step".to_owned()),
            (Mark::Line(style.smoothed), "smoothed loss".to_owned()),
        ];
        if self.0.validations().next().is_some() {
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
        let losses: Vec<Point> =
            self.0.steps().map(|it| (it.step as f64, it.loss)).filter(|it| it.1.is_finite()).collect();
        let y = Axis::around(losses.iter().map(|it| it.1), 8);
        let heading = if y.is_logarithmic() { "training loss (logarithmic)" } else { "training loss" };
        let panel = Panel::new(heading, x, y, place);
        panel.frame(canvas, false);
        if losses.is_empty() {
            return panel.remark(canvas, "no step yet");
        }
        let smoothed = smooth(&losses);
        panel.dots(canvas, &losses, palette::PALE_SKY);
        panel.line(canvas, &thin(losses), style.loss);
        panel.line(canvas, &thin(smoothed), style.smoothed);
    }

    fn draw_metric(&self, canvas: &Canvas, style: &Style, x: &Axis, place: Place) {
        let values = |of: fn(&plimsoll_types::Validated) -> f64| -> Vec<Point> {
            thin(self.0.validations().map(|it| (it.step as f64, of(it))).filter(|it| it.1.is_finite()).collect())
        };
        let (metric, baseline) = (values(|it| it.metric), values(|it| it.baseline));
        let y = Axis::around(metric.iter().chain(&baseline).map(|it| it.1), 6);
        let name = self.0.validations().last().map_or("metric", |it| it.metric_name.as_str());
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
        self.0.steps().map(|it| it.step + 1).chain(self.0.validations().map(|it| it.step)).max().unwrap_or(1) as f64
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
