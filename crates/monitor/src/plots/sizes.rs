//! Which sizes ran: how fast each batch size was, and how many samples had each padded length.

use std::collections::BTreeMap;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Canvas, Point, Stroke, palette};
use super::header::{Mark, legend_below};
use super::panel::{Panel, label_below, stack};
use crate::history::History;
use crate::work::rate;

/// Samples per second of each micro-batch size that was asked for, and the one that the run ended with; steps of another
/// patch, which is another amount of work, are drawn apart.
pub(super) struct Rates<'a>(pub(super) &'a History);

const CHOSEN: Stroke = Stroke::dashed(palette::ORANGE, 2.4);
const RATE: Stroke = Stroke::solid(palette::BLUE, 2.4);
const OTHER: Stroke = Stroke::solid(palette::GREY, 2.4);

impl Figure for Rates<'_> {
    fn draw(&self, canvas: &Canvas) {
        let last = self.0.tail_that_ran().last.as_ref().map(|it| it.rung);
        let is_alike = |patch_size: u32| last.is_some_and(|last| patch_size == last.patch_size);
        let (rates, others) = (rates(self.0, is_alike), rates(self.0, |it| !is_alike(it)));
        let chosen = last.map(|it| f64::from(it.micro_batch_size));
        let mut legend = vec![(Mark::Dot(RATE), "all steps of a size".to_owned())];
        legend.extend(chosen.map(|it| (Mark::Vertical(CHOSEN), format!("chosen: {it}"))));
        if !others.is_empty() {
            legend.push((Mark::Dot(OTHER), "of other patch sizes".to_owned()));
        }
        let [place] = stack(canvas, legend_below(canvas, 0.0, &legend), [1.0]);
        let all = || rates.iter().chain(&others);
        let x = Axis::whole(0.0, 1.1 * all().map(|it| it.0).chain(chosen).fold(1.0, f64::max), 6);
        let y = Axis::linear(0.0, 1.1 * all().map(|it| it.1).fold(0.0, f64::max), 5);
        let panel = Panel::new("samples per second", &x, y, place);
        let is_longest = !self.0.policy.cells.is_empty() && !self.0.curves.knobs.are_rows;
        let of_longest = if is_longest { " of the longest" } else { "" };
        panel.frame_over(canvas, Some(&format!("micro-batch size{of_longest} ({})", self.0.unit_of_batch())), true);
        if all().next().is_none() {
            return panel.remark(canvas, "no step was timed");
        }
        panel.verticals(canvas, &chosen.into_iter().collect::<Vec<_>>(), CHOSEN);
        panel.scatter(canvas, &others, OTHER.color);
        panel.line(canvas, &rates, RATE);
        panel.scatter(canvas, &rates, RATE.color);
    }
}

/// Returns the samples by the time of all committed steps of each size, of the patches that count.
fn rates(history: &History, counts: impl Fn(u32) -> bool) -> Vec<Point> {
    let mut sums: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
    for ((patch_size, size), (samples, seconds)) in &history.curves.committed.rates {
        if counts(*patch_size) {
            let sum = sums.entry(*size).or_default();
            *sum = (sum.0 + samples, sum.1 + seconds);
        }
    }
    sums.into_iter().filter_map(|(size, (samples, seconds))| Some((size.into(), rate(samples, seconds)?))).collect()
}

/// Samples by the edge that they were padded or cut to.
pub(super) struct Edges<'a>(pub(super) &'a History);

impl Figure for Edges<'_> {
    fn draw(&self, canvas: &Canvas) {
        let samples = &self.0.curves.committed.edges;
        let [place] = stack(canvas, 0.0, [1.0]);
        let x = Axis::whole(0.0, samples.len() as f64, 6).without_ticks();
        let y = Axis::whole(0.0, 1.1 * samples.values().max().map_or(1.0, |it| *it as f64), 5);
        let panel = Panel::new("samples", &x, y, place);
        let has_cells = samples.keys().any(|it| 1 < it.n_axes());
        let (name, first) = if has_cells { ("edges", "fewest positions") } else { ("edge", "shortest") };
        panel.frame_over(canvas, Some(&format!("{name} ({}), from the {first}", self.0.unit_of_length())), true);
        if samples.is_empty() {
            return panel.remark(canvas, "no step was done");
        }
        let mut samples: Vec<_> = samples.iter().collect();
        samples.sort_by_key(|(edge, _)| edge.positions());
        for (left, (_, n)) in samples.iter().enumerate() {
            panel.bar(canvas, (left as f64 + 0.1, left as f64 + 0.9), **n as f64, palette::GREEN);
        }
        let middle = |at: usize| panel.at((at as f64 + 0.5, 0.0)).0;
        let labels: Vec<_> = samples.iter().enumerate().map(|(at, (edge, _))| (middle(at), edge.to_string())).collect();
        label_below(canvas, place.heights.1, &labels);
    }
}
