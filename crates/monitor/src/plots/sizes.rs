//! Which sizes ran: how fast each batch size was, and how many samples had each padded length.

use std::collections::BTreeMap;

use super::Figure;
use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Lettering, Point, Stroke, palette};
use super::header::{Mark, legend_below};
use super::panel::{Panel, stack};
use crate::metrics::rate;
use crate::run::Run;

/// Samples per second of each micro-batch size that was asked for, and the one that the run ended with.
pub(super) struct Rates<'a>(pub(super) &'a Run<'a>);

const CHOSEN: Stroke = Stroke::dashed(palette::ORANGE, 2.4);
const RATE: Stroke = Stroke::solid(palette::BLUE, 2.4);

impl Figure for Rates<'_> {
    fn draw(&self, canvas: &Canvas) {
        let rates = rates(self.0);
        let chosen = self.0.committed().last().map(|it| f64::from(it.rung.micro_batch_size));
        let mut legend = vec![(Mark::Dot(RATE), "all steps of a size".to_owned())];
        legend.extend(chosen.map(|it| (Mark::Vertical(CHOSEN), format!("chosen: {it}"))));
        let [place] = stack(canvas, legend_below(canvas, 0.0, &legend), [1.0]);
        let most = rates.iter().map(|it| it.0).chain(chosen).fold(1.0, f64::max);
        let x = Axis::whole(0.0, 1.1 * most, 6);
        let y = Axis::linear(0.0, 1.1 * rates.iter().map(|it| it.1).fold(0.0, f64::max), 5);
        let panel = Panel::new("samples per second", &x, y, place);
        panel.frame_over(canvas, Some("micro-batch size (samples)"), true);
        if rates.is_empty() {
            return panel.remark(canvas, "no step was timed");
        }
        panel.verticals(canvas, &chosen.into_iter().collect::<Vec<_>>(), CHOSEN);
        panel.line(canvas, &rates, RATE);
        panel.scatter(canvas, &rates, RATE.color);
    }
}

/// Returns the samples by the time of all committed steps of each size; the first step of a run pays for the others.
fn rates(run: &Run<'_>) -> Vec<Point> {
    let mut sums: BTreeMap<u32, (u64, f64)> = BTreeMap::new();
    for it in run.committed().skip(1) {
        let sum = sums.entry(it.rung.micro_batch_size).or_default();
        *sum = (sum.0 + it.n_samples(), sum.1 + it.seconds);
    }
    sums.into_iter().filter_map(|(size, (samples, seconds))| Some((size.into(), rate(samples, seconds)?))).collect()
}

/// Samples by the edge that they were padded or cut to.
pub(super) struct Edges<'a>(pub(super) &'a Run<'a>);

impl Figure for Edges<'_> {
    fn draw(&self, canvas: &Canvas) {
        let mut samples: BTreeMap<u32, u64> = BTreeMap::new();
        for it in self.0.committed().flat_map(|it| &it.micro_batches) {
            *samples.entry(it.edges.edge()).or_default() += it.ids.len() as u64;
        }
        let [place] = stack(canvas, 0.0, [1.0]);
        let x = Axis::whole(0.0, samples.len() as f64, 6).without_ticks();
        let y = Axis::whole(0.0, 1.1 * samples.values().max().map_or(1.0, |it| *it as f64), 5);
        let panel = Panel::new("samples", &x, y, place);
        panel.frame_over(canvas, Some("edge, from the shortest"), true);
        let mut free = f64::NEG_INFINITY;
        for (at, (edge, n)) in samples.iter().enumerate() {
            let left = at as f64;
            panel.bar(canvas, (left + 0.1, left + 0.9), *n as f64, palette::GREEN);
            let ((middle, bottom), label) = (panel.at((left + 0.5, 0.0)), edge.to_string());
            let half = Lettering::QUIET.width(&label) / 2.0;
            if free <= middle - half {
                canvas.text(&label, (middle, bottom + 18.0), Lettering::QUIET.at(Anchor::Middle));
                free = middle + half + 8.0;
            }
        }
    }
}
