//! What is drawn of the steps.

use std::collections::BTreeMap;

use plimsoll_types::{Bytes, Extent, MicroBatch, StepDone};

use crate::cloud::Cloud;
use crate::plots::MAX_POINTS;
use crate::series::Series;
use crate::work::{Work, rate};

/// Tasks of which curves are kept: more colours are not told apart.
pub(crate) const MAX_TASKS: usize = 7;

/// Numbers over the steps of a run, and what ran how often.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curves {
    pub(crate) loss: Series,
    pub(crate) gradient_norm: Series,
    pub(crate) learning_rate: Series,
    pub(crate) samples_per_second: Series,
    /// Per cent of the positions.
    pub(crate) padding: Series,
    pub(crate) memory: MemoryCurves,
    pub(crate) knobs: KnobCurves,
    /// Of the steps that were committed.
    pub(crate) committed: Committed,
    /// Loss and weight of each task.
    pub(crate) tasks: Vec<[Series; 2]>,
}

/// Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemoryCurves {
    pub(crate) peak: Series,
    pub(crate) in_use: Series,
    pub(crate) capacity: Series,
    pub(crate) budget: Series,
    /// Expected peak and its upper bound, where both are known.
    pub(crate) expected: Series,
    pub(crate) upper: Series,
    /// Upper bounds wherever they are known.
    pub(crate) bounds: Series,
}

/// What a policy turned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KnobCurves {
    pub(crate) patch_size: Series,
    pub(crate) micro_batch_size: Series,
    /// The least and the most of a step's micro-batches: positions of a sample, which are its edge on one axis, and samples, or
    /// those of rows.
    pub(crate) edges: [Series; 2],
    pub(crate) sizes: [Series; 2],
    /// Whether a step has had micro-batches of several edges.
    pub(crate) are_edges_mixed: bool,
    /// Whether micro-batches have rows of several samples, which are their sizes then.
    pub(crate) are_rows: bool,
}

/// What only committed steps say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Committed {
    pub(crate) loss: Series,
    pub(crate) samples_per_second: Series,
    /// Per cent of the budget.
    pub(crate) budget_share: Series,
    /// Peaks against what was expected, and against upper bounds.
    pub(crate) expected: Cloud,
    pub(crate) upper: Cloud,
    /// Samples and seconds of each patch size and micro-batch size; the first step of a run pays for the others.
    pub(crate) rates: BTreeMap<(u32, u32), (u64, f64)>,
    /// Samples of each padded shape.
    pub(crate) edges: BTreeMap<Extent, u64>,
    has_begun: bool,
}

impl Curves {
    pub(super) fn hear(&mut self, it: &StepDone) {
        self.loss.push(it.step, it.loss);
        self.gradient_norm.push(it.step, it.gradient_norm);
        self.learning_rate.push(it.step, it.learning_rate);
        push(&mut self.samples_per_second, it.step, rate(it.n_samples(), it.seconds));
        push(&mut self.padding, it.step, Work::of(it).map(|it| 100.0 * it.padding));
        self.memory.hear(it);
        self.knobs.hear(it);
        if it.committed {
            self.committed.hear(it);
        }
        let n = it.tasks.len().min(MAX_TASKS).max(self.tasks.len());
        self.tasks.resize_with(n, Default::default);
        for ([losses, weights], task) in self.tasks.iter_mut().zip(&it.tasks) {
            push(losses, it.step, task.loss);
            weights.push(it.step, task.weight);
        }
    }

    /// Returns for how many steps two points of a drawn curve stand at most, the lowest and the highest of them: one where
    /// all steps are drawn.
    pub(crate) fn steps_per_point(&self) -> u64 {
        let peak = &self.memory.peak;
        let points = peak.points().len();
        if points <= MAX_POINTS { 1 } else { peak.values_per_group() * points.div_ceil(MAX_POINTS / 2) as u64 }
    }
}

impl MemoryCurves {
    fn hear(&mut self, it: &StepDone) {
        let bytes = |size: Bytes| size.as_f64();
        self.peak.push(it.step, bytes(it.peak));
        self.in_use.push(it.step, bytes(it.in_use));
        self.capacity.push(it.step, bytes(it.capacity));
        self.budget.push(it.step, bytes(it.budget));
        push(&mut self.expected, it.step, it.upper.and(it.predicted).map(bytes));
        push(&mut self.upper, it.step, it.predicted.and(it.upper).map(bytes));
        push(&mut self.bounds, it.step, it.upper.map(bytes));
    }
}

impl KnobCurves {
    fn hear(&mut self, it: &StepDone) {
        self.patch_size.push(it.step, it.rung.patch_size.into());
        self.micro_batch_size.push(it.step, it.rung.micro_batch_size.into());
        let positions = |it: &MicroBatch| u32::try_from(it.edges.positions()).unwrap_or(u32::MAX);
        let edges = range(it.micro_batches.iter().map(positions));
        let sizes = range(it.micro_batches.iter().map(|it| it.shape().samples));
        self.are_rows |= it.micro_batches.iter().any(|it| it.rows.is_some());
        self.are_edges_mixed |= edges.is_some_and(|[least, most]| least < most);
        for (curves, range) in [(&mut self.edges, edges), (&mut self.sizes, sizes)] {
            for (curve, value) in curves.iter_mut().zip(range.into_iter().flatten()) {
                curve.push(it.step, value.into());
            }
        }
    }
}

impl Committed {
    fn hear(&mut self, it: &StepDone) {
        self.loss.push(it.step, it.loss);
        push(&mut self.samples_per_second, it.step, rate(it.n_samples(), it.seconds));
        self.budget_share.push(it.step, 100.0 * it.peak.share_of(it.budget));
        if let (Some(predicted), Some(upper)) = (it.predicted, it.upper) {
            self.expected.push(predicted, it.peak);
            self.upper.push(upper, it.peak);
        }
        if std::mem::replace(&mut self.has_begun, true) {
            let sum = self.rates.entry((it.rung.patch_size, it.rung.micro_batch_size)).or_default();
            *sum = (sum.0 + it.n_samples(), sum.1 + it.seconds);
        }
        for it in &it.micro_batches {
            *self.edges.entry(it.edges).or_default() += it.ids.len() as u64;
        }
    }
}

fn push(series: &mut Series, step: u64, value: Option<f64>) {
    if let Some(value) = value {
        series.push(step, value);
    }
}

fn range(values: impl Iterator<Item = u32> + Clone) -> Option<[u32; 2]> {
    Some([values.clone().min()?, values.max()?])
}
