//! What a loader is told.

use plimsoll_sampler::{Groups, Objective, PlanConfig, StepSize, TaskMix};
use plimsoll_types::{Bytes, Cells, Extent, Fraction, Recompute, StepShape};

use super::BadSample;
use crate::source::Lengths;

/// What an optimizer step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepUnit {
    /// `effective_batch_size` samples; the last step of an epoch takes what is left.
    Samples,
    /// `effective_batch_size` positions on average: tokens or frames, without padding; of several axes their product.
    Positions,
    /// One batch, as large as the memory allows, of about as many samples as `effective_batch_size` at most: the effective
    /// batch size varies.
    Batch,
    /// The same, of about as many positions at most.
    BatchOfPositions,
}

/// What a loader may use, and what it fills its steps with.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderConfig {
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
    /// What an optimizer step takes; where it varies, the size that the learning rate is for.
    pub effective_batch_size: u32,
    /// What that counts.
    pub unit: StepUnit,
    /// The largest extent that will be asked for.
    pub largest_extent: Extent,
    /// The cells that samples of different length are padded to; empty where samples are cut.
    pub cells: Cells,
    /// A step of padded samples is made of at least about so many batches, so that it mixes lengths, and tasks with them;
    /// at least 1.
    pub batches_per_step: u32,
    /// A batch of padded samples has a multiple of so many, and where the memory has no room for so many, as many as fit; at
    /// least 1, and at most what a step allows a batch of the longest samples.
    pub multiple_of: u32,
    /// How many samples are arranged at a time, where their lengths are known: more pad less, and fewer mix more; what suits
    /// their number unless given.
    pub window: Option<usize>,
    /// The part of a padded batch's pairs that may share a batch in the next epoch too, where lengths are known.
    pub most_mates_kept: Fraction,
    /// What padded batches are to have little of; the time of a batch is told in positions, along one axis.
    pub objective: Objective,
    /// Whether a step at the end of an epoch that is less than a whole one is left out, with its samples.
    pub drop_last: bool,
    /// How tasks are mixed.
    pub tasks: TaskMix,
    /// Samples of a stream that are held at most, in batches that wait for a step or not planned yet.
    pub look_ahead: usize,
    /// Worker threads.
    pub workers: usize,
    /// Host memory that the buffers may hold together.
    pub buffer_limit: Bytes,
    /// What becomes of a sample that cannot be read.
    pub bad_sample: BadSample,
}

impl LoaderConfig {
    /// Cuts samples to one edge, and collates with one thread: the rest is as it is by default.
    pub fn cut(seed: u64, effective_batch_size: u32, largest_edge: u32, buffer_limit: Bytes) -> Self {
        Self {
            seed,
            effective_batch_size,
            unit: StepUnit::Samples,
            largest_extent: largest_edge.into(),
            cells: Cells::default(),
            batches_per_step: 1,
            multiple_of: 1,
            window: None,
            most_mates_kept: PlanConfig::<1>::default().most_mates_kept,
            objective: Objective::FewestBatches,
            drop_last: false,
            tasks: TaskMix::default(),
            look_ahead: 1024,
            workers: 1,
            buffer_limit,
            bad_sample: BadSample::Fail,
        }
    }

    /// Returns how much a step takes.
    pub fn step_size(&self) -> StepSize {
        match self.unit {
            StepUnit::Samples => StepSize::Samples(self.effective_batch_size),
            StepUnit::Positions => StepSize::Positions(self.effective_batch_size.into()),
            StepUnit::Batch | StepUnit::BatchOfPositions => StepSize::Batch,
        }
    }

    /// Returns how many samples of this extent a step holds, if it holds no others.
    pub fn samples_of(&self, extent: Extent) -> u32 {
        let positions = || u32::try_from(extent.positions()).unwrap_or(u32::MAX);
        match self.unit {
            StepUnit::Samples | StepUnit::Batch => self.effective_batch_size,
            StepUnit::Positions | StepUnit::BatchOfPositions => self.effective_batch_size.div_ceil(positions().max(1)),
        }
    }

    /// Recomputes the activations of samples of this first edge and longer ones; what is padded to one edge is all of one kind.
    pub fn recompute_from(&self, edge: u32) -> Recompute {
        let shorter = self.cells.iter().map(|it| it.edge()).filter(|it| *it < edge).max();
        if self.cells.is_empty() { Recompute::from(edge) } else { Recompute::above(shorter) }
    }

    /// Returns how many samples of this extent a batch of a step may have.
    pub fn batch_of(&self, extent: Extent) -> u32 {
        match self.unit {
            StepUnit::Samples | StepUnit::Positions => self.samples_of(extent).div_ceil(self.batches_per_step.max(1)),
            StepUnit::Batch | StepUnit::BatchOfPositions => self.samples_of(extent),
        }
    }

    /// Returns a shape with as many padded positions as the largest step of samples of which so much is known.
    pub fn largest(&self, lengths: &Lengths) -> StepShape {
        match lengths {
            Lengths::Packed { row_len, .. } => StepShape::new(self.rows(*row_len), *row_len),
            Lengths::Grouped(groups) => self.largest_of_groups(groups),
            Lengths::Cut | Lengths::Known(_) | Lengths::Streamed { .. } => self.largest_padded(),
        }
    }

    /// Returns the same of samples each of which has a row of its own.
    pub(super) fn largest_padded(&self) -> StepShape {
        let extent = self.largest_extent;
        match self.unit {
            StepUnit::Samples | StepUnit::Batch => StepShape::of(self.effective_batch_size, extent),
            StepUnit::Positions | StepUnit::BatchOfPositions => {
                // A step may end with a sample of the largest extent, and every one before it is padded to its own cell; where
                // batches that mix cells would pad them to more, the step ends before.
                let most = u64::from(self.effective_batch_size).saturating_mul(self.most_padding());
                let n = most.saturating_add(extent.positions()).div_ceil(extent.positions().max(1));
                StepShape::of(u32::try_from(n).unwrap_or(u32::MAX), extent)
            }
        }
    }

    /// Returns the same of whole groups, in as many of the longest samples: what a step has beyond its size is less than a group.
    pub(super) fn largest_of_groups(&self, groups: &Groups) -> StepShape {
        let size = self.step_size();
        let (beyond, members) = (groups.most_weight(size).saturating_sub(1), groups.most_weight(StepSize::Samples(1)));
        let step = u64::from(self.effective_batch_size).saturating_add(beyond);
        let n = match self.unit {
            StepUnit::Samples => step,
            StepUnit::Positions => {
                members.max(step.saturating_mul(self.most_padding_of(groups)).div_ceil(self.longest().max(1)))
            }
            StepUnit::Batch => members.max(self.samples_of(self.largest_extent).into()),
            // One of a shorter edge ends beyond the positions by less than its edge.
            StepUnit::BatchOfPositions => {
                let most = u64::from(self.effective_batch_size).saturating_add(self.longest());
                members.max(most.div_ceil(self.longest().max(1)))
            }
        };
        StepShape::of(u32::try_from(n).unwrap_or(u32::MAX), self.largest_extent)
    }

    /// Returns the largest ratio of a group's padded positions to its positions, rounded up.
    fn most_padding_of(&self, groups: &Groups) -> u64 {
        let edges = self.cells.edges(0);
        let ratio = |group: u32| {
            let lengths = || groups.members(group).iter().filter_map(|id| groups.index().get((*id).into()));
            let longest = lengths().map(|[length]| length).max().unwrap_or(1);
            let edge = edges.get(edges.partition_point(|edge| *edge < longest)).copied().unwrap_or(longest);
            let positions: u64 = lengths().map(|[length]| u64::from(length)).sum();
            (u64::from(edge) * lengths().count() as u64).div_ceil(positions.max(1))
        };
        (0..).take(groups.len()).map(ratio).max().unwrap_or(1)
    }

    /// Returns the positions of the largest sample.
    fn longest(&self) -> u64 {
        self.largest_extent.positions()
    }

    /// Returns the most packed rows of a step: of two rows that were packed together one is more than half full.
    pub(super) fn rows(&self, row_len: u32) -> u32 {
        match self.unit {
            StepUnit::Samples | StepUnit::Batch => self.effective_batch_size,
            StepUnit::BatchOfPositions => self.samples_of(row_len.into()),
            StepUnit::Positions => self.samples_of(row_len.into()).saturating_mul(2).saturating_add(1),
        }
    }

    /// Returns the largest ratio of padded positions to positions, rounded up along each axis.
    fn most_padding(&self) -> u64 {
        let along = |axis| {
            let edges = self.cells.edges(axis);
            let shortest = std::iter::once(1).chain(edges.iter().map(|edge| edge + 1));
            edges.iter().zip(shortest).map(|(edge, length)| u64::from(edge.div_ceil(length))).max().unwrap_or(1)
        };
        (0..self.cells.n_axes()).map(along).fold(1, u64::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::SampleIndex;

    use super::*;

    fn known() -> Lengths {
        Lengths::Known(SampleIndex::try_new([vec![1, 20]]).unwrap().into())
    }

    #[test]
    fn the_largest_step_has_room_for_the_worst_padding() {
        let config = LoaderConfig {
            unit: StepUnit::Positions,
            cells: vec![4, 16, 20].into(),
            ..LoaderConfig::cut(0, 100, 20, Bytes::mib(1))
        };
        // 100 samples of length 1, each padded to 4, or 20 of length 5, each padded to 16; and one that is longer.
        let largest = config.largest(&known());
        assert!(largest.positions() >= 420, "{largest}");
        assert_eq!(LoaderConfig::cut(0, 32, 64, Bytes::mib(1)).largest(&Lengths::Cut), StepShape::new(32, 64));
        // Two of three, one of them padded from 2 to 20: a step of 32 may have two samples more.
        let groups = Lengths::Grouped(Groups::try_new(&[20, 2, 1, 3], &[7, 7, 7, 9]).unwrap());
        let of = |unit, n| LoaderConfig { unit, effective_batch_size: n, ..config.clone() }.largest(&groups).samples;
        assert_eq!([of(StepUnit::Samples, 32), of(StepUnit::Batch, 2), of(StepUnit::Batch, 4)], [34, 3, 4]);
        // 100 positions and 22 beyond, three times as many where they are padded.
        assert_eq!(of(StepUnit::Positions, 100), (122_u32 * 3).div_ceil(20));
    }
}
