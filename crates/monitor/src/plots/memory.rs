//! Memory over the steps, against what was foreseen and what may be used, and the knobs that made it.

use plimsoll_types::{Bytes, Stage};

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, header};
use super::knobs::Knobs;
use super::panel::{LEFT, Panel, Place, RIGHT, stack};
use super::series::{stairs, thin};
use crate::RunFacts;
use crate::history::History;
use crate::series::Series;

/// The start is shown beside the whole where all adjustments are within this part of the run.
const START: f64 = 0.25;
/// Steps of a run from which on its start is lost in the whole.
const LONG: f64 = 40.0;
/// What there is is beyond the picture where it is more than so many times what was reached, of which little would be seen.
const FAR: u64 = 5;
/// Part of the width that the start has, and the room to the whole, in pixels.
const START_WIDTH: f64 = 0.42;
const GUTTER: f64 = 32.0;

/// The memory timeline of a run.
pub(super) struct Timeline<'a> {
    pub(super) history: &'a History,
    pub(super) facts: &'a RunFacts,
    pub(super) part: Part,
}

/// What of a run a timeline shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The start enlarged, where it would be lost, and the whole beside it.
    Both,
    /// Its first adjustments.
    Start,
    /// All of it.
    Whole,
}

/// The steps up to one, between two edges of the picture.
struct Column {
    sides: (f64, f64),
    end: f64,
    name: String,
    is_first: bool,
}

/// What is marked at single steps.
struct Marks {
    refused: Vec<(f64, Bytes)>,
    deaths: Vec<(f64, Bytes)>,
    violations: Vec<(f64, Bytes)>,
    validations: Vec<(f64, Bytes)>,
}

const PEAK: Stroke = Stroke::solid(palette::BLUE, 2.5);
const FORESEEN: Stroke = Stroke::solid(palette::PURPLE, 1.4);
const IN_USE: Stroke = Stroke::solid(palette::SKY, 1.6);
const VALIDATION: Stroke = Stroke::solid(palette::GREEN, 2.6);
const BUDGET: Stroke = Stroke::dashed(palette::ORANGE, 2.6);
const CAPACITY: Stroke = Stroke::solid(palette::INK, 2.0);
const ADJUSTMENT: Stroke = Stroke { dash: Some((3.0, 4.0)), ..Stroke::solid(palette::GREY, 1.4) };
const REFUSED: Stroke = Stroke::solid(palette::VERMILLION, 3.2);
const DEATH: Stroke = Stroke::solid(palette::INK, 3.2);
const RESTART: Stroke = Stroke::solid(palette::INK, 1.6);
const UNDONE: Stroke = Stroke::solid(palette::GREY, 1.0);

impl Figure for Timeline<'_> {
    fn draw(&self, canvas: &Canvas) {
        let marks = Marks::of(self.history);
        let top = header(canvas, "Memory timeline", self.history.subtitle(), &self.legend(&marks));
        let [memory, patch, batch] = stack(canvas, top, [0.64, 0.18, 0.18]);
        let adjustments = self.adjustments();
        for Column { sides, end, name, is_first } in self.columns(canvas.size.0) {
            let x = Axis::steps(end, 8);
            let shown: Vec<f64> = adjustments.iter().copied().filter(|it| *it <= end).collect();
            self.draw_memory(canvas, &marks, (&x, end, is_first), &shown, memory.between(sides));
            let places = [patch, batch].map(|it| it.between(sides));
            Knobs { history: self.history, x: &x, adjustments: (&shown, ADJUSTMENT), end }
                .draw(canvas, places, &name, is_first);
        }
    }
}

impl Timeline<'_> {
    /// Whether the first adjustments would be lost in the whole.
    pub(super) fn has_start(&self) -> bool {
        let last = self.adjustments().last().copied();
        LONG <= self.end() && last.is_some_and(|it| it <= START * self.end())
    }

    fn columns(&self, width: f64) -> Vec<Column> {
        let (left, right) = (LEFT, width - RIGHT);
        let start = self.adjustments().last().map_or(1.0, |it| (1.4 * it + 2.0).ceil());
        let first =
            Column { sides: (left, right), end: start, name: "step: the start, enlarged".to_owned(), is_first: true };
        match self.part {
            Part::Start => vec![first],
            Part::Both if self.has_start() => {
                let middle = left + START_WIDTH * (right - left);
                let first = Column { sides: (left, middle - GUTTER / 2.0), ..first };
                let sides = (middle + GUTTER / 2.0, right);
                let whole = Column { sides, end: self.end(), name: "step: the whole run".to_owned(), is_first: false };
                vec![first, whole]
            }
            Part::Both | Part::Whole => {
                vec![Column { end: self.end(), name: "step".to_owned(), ..first }]
            }
        }
    }

    fn draw_memory(
        &self,
        canvas: &Canvas,
        marks: &Marks,
        (x, end, is_first): (&Axis, f64, bool),
        adjustments: &[f64],
        place: Place,
    ) {
        let highest = self.highest(marks);
        let (unit, unit_name) = unit(highest);
        let top = 1.06 * highest.as_f64() / unit;
        let y = Axis::linear(0.0, top, 8);
        let heading = if is_first { format!("memory of a step ({unit_name})") } else { String::new() };
        let panel = Panel::new(heading, x, y, place);
        panel.frame_over(canvas, None, is_first);
        let curves = &self.history.curves.memory;
        if curves.peak.is_empty() {
            panel.remark(canvas, "no step yet");
        }
        self.draw_restarts(canvas, &panel, end, unit);
        panel.verticals(canvas, adjustments, ADJUSTMENT);
        let of = |series: &Series| scaled(series.until(end), unit);
        let in_use = thin(of(&curves.in_use));
        panel.area(canvas, &in_use, IN_USE.color.faint(0.3));
        panel.line(canvas, &in_use, IN_USE);
        // A bound far beyond what there is ends at the edge of the panel.
        let inside = |points: Vec<Point>| thin(points.into_iter().map(|it| (it.0, it.1.min(top))).collect());
        let expected = inside(of(&curves.expected));
        let upper = inside(of(&curves.upper));
        panel.band(canvas, &expected, &upper, FORESEEN.color.faint(0.35));
        panel.line(canvas, &upper, FORESEEN);
        if !self.is_far(marks) {
            panel.line(canvas, &thin(stairs(of(&curves.capacity), end)), CAPACITY);
            panel.line(canvas, &thin(stairs(of(&curves.budget), end)), BUDGET);
        }
        let peak = thin(of(&curves.peak));
        panel.line(canvas, &peak, PEAK);
        panel.dots(canvas, &peak, PEAK.color);
        marks.draw(canvas, &panel, end, unit);
    }

    /// Draws where processes died, and what of their work was lost.
    fn draw_restarts(&self, canvas: &Canvas, panel: &Panel<'_>, end: f64, unit: f64) {
        for it in self.facts.restarts.iter().filter(|it| it.step as f64 <= end) {
            panel.hatched(canvas, (it.step as f64, (it.step + it.undone_steps) as f64), UNDONE);
        }
        let undone: Vec<_> = self.facts.undone.iter().filter(|it| it.step as f64 <= end).collect();
        // Each process has done its steps in order.
        for run in undone.chunk_by(|a, b| a.step < b.step) {
            let peaks: Vec<Point> = run.iter().map(|it| (it.step as f64, it.peak.as_f64() / unit)).collect();
            panel.dots(canvas, &peaks, palette::GREY);
            panel.line(canvas, &thin(peaks), Stroke::solid(palette::GREY, 2.0));
        }
        let steps: Vec<f64> = self.facts.restarts.iter().map(|it| it.step as f64).filter(|it| *it <= end).collect();
        panel.verticals(canvas, &steps, RESTART);
    }

    /// Names what occurs, and nothing else.
    fn legend(&self, marks: &Marks) -> Vec<(Mark, String)> {
        let curves = &self.history.curves.memory;
        let beyond = if self.is_far(marks) { ", beyond the picture" } else { "" };
        // A value that changes is read off the axis.
        let named = |name: &str, of: &Series| {
            let value = of.constant().map_or_else(String::new, |it| format!(" {}", Bytes::from_f64_ceil(it)));
            format!("{name}{value}{beyond}")
        };
        let (has_steps, is_foreseen) = (!curves.peak.is_empty(), !curves.bounds.is_empty());
        let (is_undone, is_restarted) = (!self.facts.undone.is_empty(), !self.facts.restarts.is_empty());
        let entries = [
            (has_steps, Mark::Line(PEAK), "peak".to_owned()),
            (is_foreseen, Mark::Area(FORESEEN), "expected to upper bound".to_owned()),
            (has_steps, Mark::Area(IN_USE), "in use".to_owned()),
            (has_steps, Mark::Line(BUDGET), named("budget", &curves.budget)),
            (has_steps, Mark::Line(CAPACITY), named("capacity", &curves.capacity)),
            (!marks.validations.is_empty(), Mark::Dot(VALIDATION), "peak of a validation".to_owned()),
            (!self.adjustments().is_empty(), Mark::Vertical(ADJUSTMENT), "adjustment".to_owned()),
            (!marks.violations.is_empty(), Mark::Dot(REFUSED), "above its bound".to_owned()),
            (!marks.refused.is_empty(), Mark::Cross(REFUSED), "out of memory".to_owned()),
            (!marks.deaths.is_empty(), Mark::Cross(DEATH), "the process ended with it".to_owned()),
            (is_restarted, Mark::Vertical(RESTART), "restart".to_owned()),
            (is_restarted || is_undone, Mark::Hatched(UNDONE), "steps undone, and done again".to_owned()),
        ];
        entries.into_iter().filter(|it| it.0).map(|(_, mark, name)| (mark, name)).collect()
    }

    /// A change holds from the next step on.
    fn adjustments(&self) -> Vec<f64> {
        self.history.incidents.moves.iter().map(|(step, _)| (step + 1) as f64).collect()
    }

    fn highest(&self, marks: &Marks) -> Bytes {
        let curves = &self.history.curves.memory;
        if self.is_far(marks) {
            return self.reached(marks, &[]);
        }
        let at_start = self.history.start.as_ref().map_or(Bytes::ZERO, |it| it.budget.capacity);
        match self.reached(marks, &[&curves.capacity, &curves.budget]).max(at_start) {
            Bytes::ZERO => Bytes::mib(100),
            highest => highest,
        }
    }

    /// Whether steps have stayed so far below what there is that nothing could be told apart beside it.
    fn is_far(&self, marks: &Marks) -> bool {
        let least = self.history.curves.memory.budget.range().map(|it| Bytes::from_f64_ceil(it.0));
        let reached = self.reached(marks, &[]);
        Bytes::ZERO < reached && least.is_some_and(|least| reached.saturating_mul(FAR) < least)
    }

    /// Returns the most that was in use, bounded or marked, and of other curves; a bound far beyond these says no more than that
    /// it is.
    fn reached(&self, marks: &Marks, others: &[&Series]) -> Bytes {
        let curves = &self.history.curves.memory;
        let measured = [&curves.peak, &curves.in_use].into_iter().chain(others.iter().copied());
        let measured: Vec<f64> = measured.filter_map(Series::range).map(|it| it.1).collect();
        let most = measured.iter().copied().fold(0.0, f64::max);
        let bounds = curves.bounds.points().into_iter().map(|it| it.1).filter(|it| *it <= 2.0 * most);
        let undone = self.facts.undone.iter().map(|it| it.peak);
        let all = measured.iter().copied().chain(bounds).map(Bytes::from_f64_ceil);
        all.chain(undone).chain(marks.all().map(|it| it.1)).max().unwrap_or(Bytes::ZERO)
    }

    /// The last step ends where the next would begin.
    fn end(&self) -> f64 {
        self.facts.undone.iter().map(|it| it.step + 1).max().unwrap_or(1).max(self.history.n_done()) as f64
    }
}

impl Marks {
    fn of(history: &History) -> Self {
        // Where an attempt's own mark is unknown, it is drawn at the capacity that it did not fit.
        let failures = |is_death: bool| {
            let all = history.incidents.failures.iter();
            let of_kind = all.filter(move |it| (it.stage == Stage::Process) == is_death);
            of_kind.map(|it| (it.step as f64, it.attempt.peak.unwrap_or(it.capacity))).collect()
        };
        Self {
            refused: failures(false),
            deaths: failures(true),
            violations: history.incidents.excesses.iter().map(|it| (it.step as f64, it.peak)).collect(),
            validations: history
                .learning
                .peak
                .points()
                .into_iter()
                .map(|it| (it.0, Bytes::from_f64_ceil(it.1)))
                .collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = (f64, Bytes)> {
        [&self.refused, &self.deaths, &self.violations, &self.validations].into_iter().flatten().copied()
    }

    fn draw(&self, canvas: &Canvas, panel: &Panel<'_>, end: f64, unit: f64) {
        let places = |of: &[(f64, Bytes)]| -> Vec<Point> {
            of.iter().filter(|it| it.0 <= end).map(|it| (it.0, it.1.as_f64() / unit)).collect()
        };
        panel.dots(canvas, &places(&self.validations), VALIDATION.color);
        panel.scatter(canvas, &thin(places(&self.violations)), REFUSED.color);
        panel.crosses(canvas, places(&self.refused), REFUSED);
        panel.crosses(canvas, places(&self.deaths), DEATH);
    }
}

/// Turns bytes into the unit of an axis.
fn scaled(mut points: Vec<Point>, unit: f64) -> Vec<Point> {
    for it in &mut points {
        it.1 /= unit;
    }
    points
}

/// Chooses the unit in which the largest value has at least a few.
pub(super) fn unit(highest: Bytes) -> (f64, &'static str) {
    [(Bytes::gib(1), "GiB"), (Bytes::mib(1), "MiB"), (Bytes::kib(1), "KiB")]
        .into_iter()
        .find(|(unit, _)| unit.saturating_mul(2) <= highest)
        .map_or((1.0, "B"), |(unit, name)| (unit.as_f64(), name))
}
