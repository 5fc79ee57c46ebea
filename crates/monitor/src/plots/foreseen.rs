//! What was predicted of each step, against what was measured.

use plimsoll_types::Bytes;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, legend_below};
use super::memory::unit;
use super::panel::{Panel, stack};
use crate::cloud::Cloud;
use crate::history::History;

/// The most points of a kind: what lies on one place is drawn once.
const MAX_POINTS: usize = 400;

/// A dot for each step that was predicted: what was expected, and its upper bound.
pub(super) struct Foreseen<'a>(pub(super) &'a History);

const EQUAL: Stroke = Stroke::dashed(palette::GREY, 1.4);
const EXPECTED: Stroke = Stroke::solid(palette::BLUE, 2.0);
const UPPER: Stroke = Stroke::solid(palette::PURPLE, 2.0);
const ABOVE: Stroke = Stroke::solid(palette::VERMILLION, 3.0);

impl Figure for Foreseen<'_> {
    fn draw(&self, canvas: &Canvas) {
        let committed = &self.0.curves.committed;
        let all = committed.expected.pairs().chain(committed.upper.pairs());
        let (unit, name) = unit(all.map(|it| it.0.max(it.1)).max().unwrap_or(Bytes::mib(100)));
        let of = |cloud: &Cloud| distinct(cloud.pairs().map(|it| (it.0.as_f64() / unit, it.1.as_f64() / unit)));
        let (expected, upper) = (of(&committed.expected), of(&committed.upper));
        let (above, upper): (Vec<Point>, Vec<Point>) = upper.into_iter().partition(|it| it.0 < it.1);
        let mut legend = vec![
            (Mark::Line(EQUAL), "as predicted".to_owned()),
            (Mark::Dot(UPPER), "upper bound".to_owned()),
            (Mark::Dot(EXPECTED), "expected".to_owned()),
        ];
        if !above.is_empty() {
            legend.push((Mark::Dot(ABOVE), "measured above the bound".to_owned()));
        }
        let [place] = stack(canvas, legend_below(canvas, 0.0, &legend), [1.0]);
        let most = expected.iter().chain(&upper).chain(&above).flat_map(|it| [it.0, it.1]).fold(1.0, f64::max);
        let x = Axis::linear(0.0, 1.05 * most, 5);
        let panel = Panel::new(format!("measured ({name})"), &x, Axis::linear(0.0, 1.05 * most, 5), place);
        panel.frame_over(canvas, Some(&format!("predicted ({name})")), true);
        if expected.is_empty() {
            return panel.remark(canvas, "nothing was predicted");
        }
        panel.line(canvas, &[(0.0, 0.0), (most, most)], EQUAL);
        for (points, stroke) in [(upper, UPPER), (expected, EXPECTED), (above, ABOVE)] {
            panel.scatter(canvas, &points, stroke.color);
        }
    }
}

/// Keeps one of the points that lie on one place, and of many places the same part everywhere.
fn distinct(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut points: Vec<Point> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by(|a, b| (a.0 - b.0).abs() < 0.1 && (a.1 - b.1).abs() < 0.1);
    let every = points.len().div_ceil(MAX_POINTS).max(1);
    points.into_iter().step_by(every).collect()
}
