//! The tasks of a run beside each other.

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Color, Lettering, Point, Stroke, palette};
use super::header::{Mark, header};
use super::panel::{LEFT, Panel, Place, RIGHT, stack};
use super::ratios::{Ratios, baseline};
use super::series::{MAX_POINTS, smooth, thin_to};
use crate::history::{History, MAX_TASKS};
use crate::series::Series;

/// Colours of the tasks, in order.
const COLORS: [Color; MAX_TASKS] =
    [palette::BLUE, palette::VERMILLION, palette::GREEN, palette::ORANGE, palette::PURPLE, palette::SKY, palette::INK];
/// Right edge of what is drawn over the steps, and left edge of what is drawn beside it, in pixels.
const MIDDLE: (f64, f64) = (744.0, 804.0);
/// The most room that a name takes in the legend, in pixels.
const NAME: f64 = 260.0;
/// How much of a colour the single steps keep, behind the smoothed ones.
const PALE: f64 = 0.35;

/// The comparison of the tasks of a run.
pub(super) struct Comparison<'a> {
    history: &'a History,
    names: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Returns `None` where there is nothing to compare: no tasks, or one.
    pub(super) fn new(history: &'a History) -> Option<Self> {
        let names = history.tasks.names();
        (1 < names.len()).then_some(Self { history, names })
    }

    fn n_shown(&self) -> usize {
        self.names.len().min(MAX_TASKS)
    }

    fn subtitle(&self) -> String {
        let (shown, all) = (self.n_shown(), self.names.len());
        let subtitle = self.history.subtitle();
        if shown < all { format!("the first {shown} of {all} tasks · {subtitle}") } else { subtitle }
    }

    /// Returns the losses of the tasks that are shown, or their weights.
    fn all(&self, of: fn(&[Series; 2]) -> &Series) -> Vec<&'a Series> {
        self.history.curves.tasks.iter().map(of).collect()
    }

    fn draw_losses(&self, canvas: &Canvas, x: &Axis, place: Place, lowest: bool) {
        let series = self.all(|[losses, _]| losses);
        let losses: Vec<_> = series.iter().map(|it| it.points()).collect();
        let y = Axis::around(losses.iter().flatten().map(|it| it.1), 8);
        let heading = if y.is_logarithmic() { "loss of each task (logarithmic)" } else { "loss of each task" };
        let panel = Panel::new(heading, x, y, place.between((LEFT, MIDDLE.0)));
        panel.frame(canvas, lowest);
        if losses.iter().all(Vec::is_empty) {
            return panel.remark(canvas, "no step yet");
        }
        for (points, color) in losses.iter().zip(COLORS) {
            panel.dots(canvas, points, pale(color));
            panel.line(canvas, &self.thin(points), Stroke::solid(pale(color), 1.2));
        }
        let smoothed = series.iter().map(|it| self.thin(&smooth(&it.means())));
        smoothed.zip(COLORS).for_each(|(it, color)| panel.line(canvas, &it, Stroke::solid(color, 3.0)));
    }

    fn draw_weights(&self, canvas: &Canvas, x: &Axis, weights: &[&Series], place: Place) {
        let weights: Vec<_> = weights.iter().map(|it| it.points()).collect();
        let y = Axis::around(weights.iter().flatten().map(|it| it.1), 5);
        let panel = Panel::new("weight of each task's loss", x, y, place.between((LEFT, MIDDLE.0)));
        panel.frame(canvas, true);
        let lines = weights.iter().zip(COLORS);
        lines.for_each(|(it, color)| panel.line(canvas, &self.thin(it), Stroke::solid(color, 2.2)));
    }

    /// The tasks share the points that a picture may have.
    fn thin(&self, points: &[Point]) -> Vec<Point> {
        thin_to(points.to_vec(), MAX_POINTS / self.n_shown())
    }
}

impl Figure for Comparison<'_> {
    fn draw(&self, canvas: &Canvas) {
        let name = |name: &String| Lettering::LABEL.fitting(name.clone(), NAME);
        let entry = |(it, color)| (Mark::Line(Stroke::solid(color, 3.0)), name(it));
        let mut legend: Vec<_> = self.names.iter().zip(COLORS).map(entry).collect();
        legend.push((Mark::Vertical(baseline()), "baseline".to_owned()));
        let top = header(canvas, "Tasks compared", self.subtitle(), &legend);
        let end = self.history.n_done().max(1);
        let x = Axis::steps(end as f64, 6);
        let weights = self.all(|[_, weights]| weights);
        if weights.iter().any(|it| !it.is_empty() && it.constant().is_none()) {
            let [upper, lower] = stack(canvas, top, [0.64, 0.36]);
            self.draw_losses(canvas, &x, upper, false);
            self.draw_weights(canvas, &x, &weights, lower);
        } else {
            let [place] = stack(canvas, top, [1.0]);
            self.draw_losses(canvas, &x, place, true);
        }
        let [place] = stack(canvas, top, [1.0]);
        let reports = self.history.tasks.reports();
        Ratios {
            tasks: &reports[..self.n_shown()],
            colors: &COLORS,
            place: place.between((MIDDLE.1, canvas.size.0 - RIGHT)),
        }
        .draw(canvas);
    }
}

/// Mixes a colour with white.
fn pale(Color(r, g, b): Color) -> Color {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between a byte and 255")]
    let mix = |it: u8| (f64::from(it) * PALE + 255.0 * (1.0 - PALE)).round() as u8;
    Color(mix(r), mix(g), mix(b))
}
