//! Memory over the steps, against what may be used, and the knobs that made it.

use plimsoll_types::{Bytes, StepDone, Validated};
use plotters::prelude::*;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Drawn, Point, Stroke, palette};
use super::header::{Mark, header};
use super::knobs::Knobs;
use super::panel::{Panel, stack};
use super::series::{stairs, thin};
use crate::run::Run;

/// The memory timeline of a run.
pub(super) struct Timeline<'a>(pub(super) &'a Run<'a>);

struct Style {
    peak: Stroke,
    in_use: Stroke,
    validation: Stroke,
    budget: Stroke,
    capacity: Stroke,
    adjustment: Stroke,
    failure: Stroke,
}

impl Style {
    fn new() -> Self {
        Self {
            peak: Stroke::solid(palette::BLUE, 2.5),
            in_use: Stroke::solid(palette::SKY, 1.6),
            validation: Stroke::solid(palette::GREEN, 2.6),
            budget: Stroke::dashed(palette::ORANGE, 2.6),
            capacity: Stroke::solid(palette::INK, 2.0),
            adjustment: Stroke { dash: Some((3.0, 4.0)), ..Stroke::solid(palette::GREY, 1.4) },
            failure: Stroke::solid(palette::VERMILLION, 3.2),
        }
    }
}

impl Figure for Timeline<'_> {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn<B> {
        let style = Style::new();
        let top = header(canvas, "Memory timeline", self.0.subtitle(), &self.legend(&style))?;
        let [memory, patch, batch] = stack(top, [0.64, 0.18, 0.18]);
        let x = Axis::whole(0.0, self.end(), 8);
        self.draw_memory(canvas, &style, &x, memory)?;
        let adjustments = (&self.adjustments()[..], style.adjustment);
        Knobs { run: self.0, x: &x, adjustments, end: self.end() }.draw(canvas, patch, batch)
    }
}

impl Timeline<'_> {
    fn draw_memory<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        style: &Style,
        x: &Axis,
        place: (f64, f64),
    ) -> Drawn<B> {
        let highest = self.highest();
        let (unit, unit_name) = unit(highest);
        let y = Axis::linear(0.0, 1.06 * highest.as_f64() / unit, 8);
        let panel = Panel::new(format!("memory of a step ({unit_name})"), x, y, place);
        let series = |of: fn(&StepDone) -> Bytes| self.series(|it| of(it).as_f64() / unit);
        panel.frame(canvas, false)?;
        if self.0.steps().next().is_none() {
            panel.remark(canvas, "no step yet")?;
        }
        panel.verticals(canvas, &self.adjustments(), style.adjustment)?;
        let (peak, in_use) = (thin(series(|it| it.peak)), thin(series(|it| it.in_use)));
        panel.area(canvas, &in_use, style.in_use.color.mix(0.3))?;
        panel.line(canvas, &in_use, style.in_use)?;
        panel.line(canvas, &self.stairs(series(|it| it.capacity)), style.capacity)?;
        panel.line(canvas, &self.stairs(series(|it| it.budget)), style.budget)?;
        panel.line(canvas, &peak, style.peak)?;
        panel.dots(canvas, &peak, palette::BLUE)?;
        let of_validation = |it: &Validated| (it.step as f64, it.peak.as_f64() / unit);
        panel.dots(canvas, &self.0.validations().map(of_validation).collect::<Vec<_>>(), palette::GREEN)?;
        self.failures()
            .into_iter()
            .try_for_each(|(step, bytes)| canvas.cross(panel.at((step, bytes.as_f64() / unit)), 7.0, style.failure))
    }

    fn legend(&self, style: &Style) -> Vec<(Mark, String)> {
        let named = |name: &str, of: fn(&StepDone) -> Bytes| {
            let mut values = self.0.steps().map(of);
            let first = values.next();
            // A value that changes is read off the axis.
            if values.all(|it| Some(it) == first) {
                first.map_or(name.to_owned(), |it| format!("{name} {it}"))
            } else {
                name.to_owned()
            }
        };
        vec![
            (Mark::Line(style.peak), "peak".to_owned()),
            (Mark::Area(style.in_use), "in use".to_owned()),
            (Mark::Line(style.budget), named("budget", |it| it.budget)),
            (Mark::Line(style.capacity), named("capacity", |it| it.capacity)),
            (Mark::Line(style.validation), "peak of a validation".to_owned()),
            (Mark::Vertical(style.adjustment), "adjustment".to_owned()),
            (Mark::Cross(style.failure), "out of memory".to_owned()),
        ]
    }

    fn series(&self, value: impl Fn(&StepDone) -> f64) -> Vec<Point> {
        self.0.steps().map(|it| (it.step as f64, value(it))).collect()
    }

    fn stairs(&self, values: Vec<Point>) -> Vec<Point> {
        thin(stairs(values, self.end()))
    }

    /// A change holds from the next step on.
    fn adjustments(&self) -> Vec<f64> {
        self.0.moves().map(|(step, _)| (step + 1) as f64).collect()
    }

    /// Where an attempt's own mark is unknown, it is drawn at the capacity that it did not fit.
    fn failures(&self) -> Vec<(f64, Bytes)> {
        self.0.failures().map(|it| (it.step as f64, it.attempt.peak.unwrap_or(it.capacity))).collect()
    }

    fn highest(&self) -> Bytes {
        let steps = self.0.steps().map(|it| it.peak.max(it.capacity).max(it.budget).max(it.in_use));
        let validations = self.0.validations().map(|it| it.peak);
        let at_start = self.0.start().map(|it| it.budget.capacity);
        steps
            .chain(validations)
            .chain(self.failures().into_iter().map(|it| it.1))
            .chain(at_start)
            .max()
            .unwrap_or(Bytes::mib(100))
    }

    /// The last step ends where the next would begin.
    fn end(&self) -> f64 {
        self.0.steps().map(|it| it.step + 1).max().unwrap_or(1) as f64
    }
}

/// Chooses the unit in which the largest value has at least a few.
fn unit(highest: Bytes) -> (f64, &'static str) {
    [(Bytes::gib(1), "GiB"), (Bytes::mib(1), "MiB"), (Bytes::kib(1), "KiB")]
        .into_iter()
        .find(|(unit, _)| unit.saturating_mul(2) <= highest)
        .map_or((1.0, "B"), |(unit, name)| (unit.as_f64(), name))
}
