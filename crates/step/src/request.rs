//! What a step is asked to do, and what of it ran.

use std::ops::Range;

use burn::module::{Module, ParamId};
use plimsoll_predict::PartReading;
use plimsoll_types::{Budget, Bytes, Extent, Knobs, Observation, Prediction, StepShape};

use crate::gradients::WeightedAccumulator;

/// What a step is asked to do.
#[derive(Clone, Debug)]
pub struct StepRequest {
    /// The micro-batches, in order.
    pub micro_batches: Vec<StepPart>,
    /// How much each sample counts in the step's mean: 1, or its tokens; one for each sample of the parts.
    pub units: Vec<u64>,
    /// The length of each sample, where whoever makes a batch pads it to its own longest; empty where to the part's edge.
    pub lengths: Vec<u32>,
    /// Parameters whose gradients are read and left out: one for each task, to measure its gradient by.
    pub task_probes: Vec<ParamId>,
    /// What there is.
    pub budget: Budget,
    /// What the gradient becomes before the optimizer takes it.
    pub rescale: Rescale,
    /// Whether a part that does not fit may run in halves: it may not where a sample's result depends on the others beside it,
    /// and that is to stay so.
    pub may_halve: bool,
}

/// What a gradient becomes between the backward pass and the optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rescale {
    /// Losses are multiplied by this, above 0, and the gradient is divided by it: so that what is small in 16 bits does not
    /// vanish. `None` where they are not.
    pub loss_scale: Option<f64>,
    /// The largest global norm, above 0: a gradient with a larger one is shortened to it. `None` for no limit.
    pub max_norm: Option<f64>,
}

impl Rescale {
    /// Returns the scale of losses.
    pub(crate) fn scale(self) -> f64 {
        self.loss_scale.unwrap_or(1.0)
    }

    /// Returns what a gradient of this norm is multiplied by, once its loss was scaled; `None` where it stays as it is.
    pub(crate) fn factor(self, norm: f64) -> Option<f64> {
        let clip = self.max_norm.filter(|most| *most < norm).map(|most| most / norm);
        if clip.is_none() && self.loss_scale.is_none() { None } else { Some(clip.unwrap_or(1.0) / self.scale()) }
    }
}

/// Samples that run together, all of one extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPart {
    /// A range of the step's samples.
    pub samples: Range<usize>,
    /// What each of them is cut or padded to.
    pub extent: Extent,
}

impl StepPart {
    /// Divides samples of one extent, full micro-batches first, the ragged one last.
    pub fn divide(samples: Range<usize>, extent: Extent, micro_batch_size: u32) -> impl Iterator<Item = Self> {
        let (end, size) = (samples.end, micro_batch_size.max(1) as usize);
        samples.step_by(size).map(move |start| Self { samples: start..end.min(start + size), extent })
    }

    /// Cuts it into pieces of these sizes, as many samples together as it has.
    pub fn cut(self, sizes: Vec<u32>) -> impl Iterator<Item = Self> {
        let Self { samples: Range { mut start, .. }, extent } = self;
        sizes.into_iter().map(move |size| {
            let samples = start..start + size as usize;
            start = samples.end;
            Self { samples, extent }
        })
    }

    /// Returns the shape of the micro-batch.
    pub fn shape(&self) -> StepShape {
        StepShape::of(u32::try_from(self.samples.len()).unwrap_or(u32::MAX), self.extent)
    }
}

/// A part that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanPart {
    /// Its samples.
    pub part: StepPart,
    /// Bytes in use before it; the gradients that the parts before it have accumulated are among them.
    pub resident: Bytes,
    /// Its high-water mark, where that is known to be its own.
    pub peak: Option<Bytes>,
    /// The size of the pages in which that was reserved; zero where peaks are exact.
    pub page: Bytes,
    /// The nodes of its graph; zero where that is small, and where peaks are not exact.
    pub nodes: u64,
    /// Counts the groups of parts in a step; those of one group ran side by side.
    pub group: usize,
    /// What it was to reach with others: with those of its group, where it ran beside them, or with what they have left
    /// reserved, where it began among their pages.
    pub beside: Option<Prediction>,
}

impl RanPart {
    /// Counts what the optimizer's step reached as this part's, the last of its step, after which so much was in use.
    ///
    /// It lies in the part's own high-water mark, or comes after that of its group.
    pub fn follow(&mut self, in_use: Bytes, peak: Bytes) {
        let reached = match self.beside {
            Some(_) => self.resident.saturating_add(peak.saturating_sub(in_use)),
            None => peak,
        };
        self.peak = self.peak.map(|own| own.max(reached));
    }

    /// Returns what a predictor learns of it, where its high-water mark is known; `is_exact` says whether that is of the bytes
    /// in use, and not merely of what is reserved.
    pub fn reading(&self, is_exact: bool) -> Option<PartReading> {
        let read = Observation { shape: self.part.shape(), resident: self.resident, peak: self.peak? };
        Some(PartReading::of(read, is_exact, self.page).with_nodes(self.nodes))
    }
}

impl StepRequest {
    /// Asks for samples of one edge that count one each.
    pub fn of_edge(n_samples: usize, knobs: Knobs, budget: Budget) -> Self {
        let micro_batches = StepPart::divide(0..n_samples, knobs.patch_size.into(), knobs.micro_batch_size).collect();
        Self::of_parts(micro_batches, n_samples, budget)
    }

    /// Asks for parts of these shapes, in order, whose samples count one each.
    pub fn of_shapes(shapes: &[StepShape], task_probes: Vec<ParamId>, budget: Budget) -> Self {
        let starts = shapes.iter().scan(0, |end, it| Some(std::mem::replace(end, *end + it.samples as usize)));
        let part = |(start, it): (usize, &StepShape)| StepPart {
            samples: start..start + it.samples as usize,
            extent: it.extent(),
        };
        let micro_batches: Vec<_> = starts.zip(shapes).map(part).collect();
        let n_samples = micro_batches.last().map_or(0, |it| it.samples.end);
        Self { task_probes, ..Self::of_parts(micro_batches, n_samples, budget) }
    }

    /// Asks for parts whose samples count one each.
    fn of_parts(micro_batches: Vec<StepPart>, n_samples: usize, budget: Budget) -> Self {
        let (units, rescale) = (vec![1; n_samples], Rescale::default());
        let (lengths, task_probes) = (Vec::new(), Vec::new());
        Self { micro_batches, units, lengths, task_probes, budget, rescale, may_halve: true }
    }

    pub(crate) fn accumulator<M: Module>(&self) -> WeightedAccumulator<M> {
        WeightedAccumulator::new(self.n_units(0..self.units.len())).with_loss_scale(self.rescale.loss_scale)
    }

    /// Whether the gradient may be multiplied before the optimizer takes it.
    pub(crate) fn rescales(&self) -> bool {
        self.rescale != Rescale::default()
    }

    /// Returns what a sample is cut or padded to; zero of one that the step does not have.
    pub fn extent_of(&self, sample: usize) -> Extent {
        if let Some(length) = self.lengths.get(sample) {
            return Extent::new(*length);
        }
        let at = self.micro_batches.partition_point(|it| it.samples.end <= sample);
        self.micro_batches.get(at).map_or(Extent::new(0), |it| it.extent)
    }

    /// Returns samples that run together as a part: their extent is that of the longest.
    pub fn part(&self, samples: &Range<usize>) -> StepPart {
        let longest = self.lengths.get(samples.clone()).and_then(|it| it.iter().max());
        let extent = longest.map_or_else(|| self.extent_of(samples.start), |it| Extent::new(*it));
        StepPart { samples: samples.clone(), extent }
    }

    pub(crate) fn is_of_one_extent(&self) -> bool {
        let is_one_length = self.lengths.windows(2).all(|pair| pair[0] == pair[1]);
        is_one_length && self.micro_batches.windows(2).all(|pair| pair[0].extent == pair[1].extent)
    }

    pub(crate) fn n_units(&self, samples: Range<usize>) -> u64 {
        self.units[samples].iter().sum()
    }
}
