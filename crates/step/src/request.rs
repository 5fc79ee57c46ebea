//! What a step is asked to do, and what of it ran.

use std::ops::Range;

use burn::module::ParamId;
use plimsoll_types::{Budget, Bytes, Knobs, StepShape};

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
}

/// Samples that run together, all with one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPart {
    /// A range of the step's samples.
    pub samples: Range<usize>,
    /// Their edge.
    pub edge: u32,
}

impl StepPart {
    /// Divides samples of one edge, full micro-batches first, the ragged one last.
    pub fn divide(samples: Range<usize>, edge: u32, micro_batch_size: u32) -> impl Iterator<Item = Self> {
        let (end, size) = (samples.end, micro_batch_size.max(1) as usize);
        samples.step_by(size).map(move |start| Self { samples: start..end.min(start + size), edge })
    }

    /// Returns the shape of the micro-batch.
    pub fn shape(&self) -> StepShape {
        StepShape::new(u32::try_from(self.samples.len()).unwrap_or(u32::MAX), self.edge)
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
    /// The nodes of its graph; zero where that is small, and where peaks are not exact.
    pub nodes: u64,
}

impl StepRequest {
    /// Asks for samples of one edge that count one each.
    pub fn of_edge(n_samples: usize, knobs: Knobs, budget: Budget) -> Self {
        let micro_batches = StepPart::divide(0..n_samples, knobs.patch_size, knobs.micro_batch_size).collect();
        Self { micro_batches, units: vec![1; n_samples], lengths: Vec::new(), task_probes: Vec::new(), budget }
    }

    /// Asks for parts of these shapes, in order, whose samples count one each.
    pub fn of_shapes(shapes: &[StepShape], task_probes: Vec<ParamId>, budget: Budget) -> Self {
        let starts = shapes.iter().scan(0, |end, it| Some(std::mem::replace(end, *end + it.samples as usize)));
        let part = |(start, it): (usize, &StepShape)| StepPart {
            samples: start..start + it.samples as usize,
            edge: it.edge(),
        };
        let micro_batches: Vec<_> = starts.zip(shapes).map(part).collect();
        let n_samples = micro_batches.last().map_or(0, |it| it.samples.end);
        Self { micro_batches, units: vec![1; n_samples], lengths: Vec::new(), task_probes, budget }
    }

    /// Returns the edge of a sample; zero of one that the step does not have.
    pub fn edge_of(&self, sample: usize) -> u32 {
        if let Some(length) = self.lengths.get(sample) {
            return *length;
        }
        let at = self.micro_batches.partition_point(|it| it.samples.end <= sample);
        self.micro_batches.get(at).map_or(0, |it| it.edge)
    }

    pub(crate) fn part(&self, samples: &Range<usize>) -> StepPart {
        let longest = self.lengths.get(samples.clone()).and_then(|it| it.iter().max());
        StepPart { samples: samples.clone(), edge: longest.copied().unwrap_or_else(|| self.edge_of(samples.start)) }
    }

    pub(crate) fn is_of_one_edge(&self) -> bool {
        self.micro_batches.windows(2).all(|pair| pair[0].edge == pair[1].edge)
    }

    pub(crate) fn n_units(&self, samples: Range<usize>) -> u64 {
        self.units[samples].iter().sum()
    }
}
