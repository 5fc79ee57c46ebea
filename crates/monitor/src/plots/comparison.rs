//! The losses of two runs of the same steps, one of them disturbed.

use std::collections::BTreeMap;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{Panel, Place, stack};
use super::series::thin;
use crate::history::History;

/// The losses of two runs.
pub(super) struct LossComparison<'a> {
    pub(super) undisturbed: &'a History,
    pub(super) disturbed: &'a History,
}

impl Figure for LossComparison<'_> {
    fn draw(&self, canvas: &Canvas) {
        let style = Style::new();
        let n_failures = self.disturbed.incidents.failures.len();
        let legend = [
            (Mark::Line(style.undisturbed), "undisturbed".to_owned()),
            (Mark::Line(style.disturbed), format!("with {n_failures} micro-batches out of memory")),
            (Mark::Vertical(style.failure), "out of memory".to_owned()),
        ];
        let top = header(canvas, "Loss with and without faults", self.undisturbed.subtitle(), &legend);
        let [upper, lower] = stack(canvas, top, [0.7, 0.3]);
        let (calm, faulty) = (self.undisturbed.curves.loss.points(), self.disturbed.curves.loss.points());
        let end = calm.iter().chain(&faulty).map(|it| it.0 + 1.0).fold(1.0, f64::max);
        let x = Axis::steps(end, 8);
        self.draw_losses(canvas, &style, &x, upper, [&calm, &faulty]);
        draw_differences(canvas, &style, &x, lower, [&calm, &faulty]);
    }
}

struct Style {
    undisturbed: Stroke,
    disturbed: Stroke,
    failure: Stroke,
}

impl Style {
    fn new() -> Self {
        Self {
            // Wide and pale, so that the other line on top of it hides nothing.
            undisturbed: Stroke::solid(palette::PALE_SKY, 6.0),
            disturbed: Stroke::solid(palette::BLUE, 1.8),
            failure: Stroke::solid(palette::VERMILLION, 1.4),
        }
    }
}

impl LossComparison<'_> {
    fn draw_losses(&self, canvas: &Canvas, style: &Style, x: &Axis, place: Place, [calm, faulty]: [&[Point]; 2]) {
        let y = Axis::around(calm.iter().chain(faulty).map(|it| it.1), 8);
        let heading = if y.is_logarithmic() { "training loss (logarithmic)" } else { "training loss" };
        let panel = Panel::new(heading, x, y, place);
        panel.frame(canvas, false);
        if calm.is_empty() && faulty.is_empty() {
            return panel.remark(canvas, "no step yet");
        }
        let failures: Vec<f64> = self.disturbed.incidents.failures.iter().map(|it| it.step as f64).collect();
        panel.line(canvas, &thin(calm.to_vec()), style.undisturbed);
        panel.line(canvas, &thin(faulty.to_vec()), style.disturbed);
        panel.verticals(canvas, &failures, style.failure);
    }
}

fn draw_differences(canvas: &Canvas, style: &Style, x: &Axis, place: Place, [calm, faulty]: [&[Point]; 2]) {
    let of_steps: BTreeMap<u64, f64> = calm.iter().map(|it| (it.0.to_bits(), it.1)).collect();
    let percent = |(step, loss): &Point| Some((*step, 100.0 * (loss / of_steps.get(&step.to_bits())? - 1.0)));
    let differences: Vec<Point> = faulty.iter().filter_map(percent).filter(|it| it.1.is_finite()).collect();
    let largest = differences.iter().map(|it| it.1.abs()).fold(1e-6, f64::max);
    let panel =
        Panel::new("difference in per cent of the loss", x, Axis::around([-largest, largest].into_iter(), 4), place);
    panel.frame(canvas, true);
    if differences.is_empty() {
        return panel.remark(canvas, "no step in common");
    }
    panel.line(canvas, &thin(differences), style.disturbed);
}
