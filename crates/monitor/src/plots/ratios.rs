//! The metric of each task over its baseline, as bars.

use super::canvas::{Anchor, Canvas, Color, Lettering, Stroke, palette};
use super::panel::Place;
use crate::TaskReport;
use crate::text::short;

/// Room for the ratio behind the longest bar, in pixels.
const VALUE: f64 = 84.0;
/// Room on both sides of a number, in pixels.
const GAP: f64 = 8.0;
/// By how much the baseline is longer than a bar is high, at either end, in pixels.
const BEYOND: f64 = 6.0;
/// Height of a task at most, in pixels.
const HEIGHT: f64 = 132.0;
/// Height of a bar at most, in pixels.
const BAR: f64 = 40.0;
/// Height of the two lines of text above a bar, in pixels.
const TEXT: f64 = 58.0;
/// A task that takes less height has one line of text.
const ROOM: f64 = 96.0;

/// Bars of tasks, one below the other.
pub(super) struct Ratios<'a> {
    pub(super) tasks: &'a [TaskReport],
    /// A colour for each task.
    pub(super) colors: &'a [Color],
    pub(super) place: Place,
}

impl Ratios<'_> {
    pub(super) fn draw(&self, canvas: &Canvas) {
        let Place { sides: (left, right), heights: (top, bottom) } = self.place;
        canvas.text("validation metric over baseline", (left, top - 23.0), Lettering::HEADING);
        if self.tasks.iter().all(|it| it.ratio.is_none()) {
            let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom));
            return canvas.text("no validation yet", middle, Lettering::QUIET.at(Anchor::Middle));
        }
        let longest = self.tasks.iter().filter_map(|it| it.ratio).fold(1.0, f64::max);
        let unit = (right - VALUE - left) / longest;
        let n_tasks = self.tasks.len() as f64;
        let height = ((bottom - top) / n_tasks).min(HEIGHT);
        for (index, (task, color)) in self.tasks.iter().zip(self.colors).enumerate() {
            self.draw_task(canvas, task, *color, (top + index as f64 * height, height), unit);
        }
        canvas.line(&[(left, top), (left, top + n_tasks * height)], Stroke::solid(palette::GREY, 1.0));
    }

    fn draw_task(&self, canvas: &Canvas, task: &TaskReport, color: Color, (top, height): (f64, f64), unit: f64) {
        let (left, right) = self.place.sides;
        let write = |text: String, y: f64, lettering: Lettering| {
            canvas.text(&lettering.fitting(text, right - left - 8.0), (left + 8.0, y), lettering);
        };
        let lines = if ROOM <= height { 2.0 } else { 1.0 };
        write(task.name.clone(), top + 18.0, Lettering::LABEL);
        if let (true, Some(name), Some(metric), Some(baseline)) =
            (1.0 < lines, &task.metric_name, task.metric, task.baseline)
        {
            let text = format!("{name} {}, baseline {}", short(metric), short(baseline));
            write(text, top + 44.0, Lettering::QUIET.sized(15.0));
        }
        let Some(ratio) = task.ratio else { return };
        let bar = top + TEXT / 2.0 * lines + 4.0;
        let thick = (height - (bar - top) - 2.0 * BEYOND).clamp(4.0, BAR);
        let end = left + unit * ratio.max(0.0);
        canvas.rectangle([(left, bar), (end, bar + thick)], color);
        let one = left + unit;
        canvas.line(&[(one, bar - BEYOND), (one, bar + thick + BEYOND)], baseline());
        let (text, start) = (short(ratio), end + GAP);
        // The line goes through no number.
        let crossed = start - GAP < one && one < start + GAP + Lettering::LABEL.width(&text);
        let start = if crossed { one + GAP } else { start };
        canvas.text(&text, (start, bar + thick / 2.0), Lettering::LABEL);
    }
}

/// Where a metric would be as good as its baseline.
pub(super) fn baseline() -> Stroke {
    Stroke { dash: Some((4.0, 3.0)), ..Stroke::solid(palette::INK, 2.0) }
}
