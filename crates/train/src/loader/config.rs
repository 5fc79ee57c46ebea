//! What a loader is told.

use plimsoll_sampler::{Groups, Objective, PlanConfig, StepSize, TaskMix};
use plimsoll_types::{Bytes, Cells, Extent, Fraction, Recompute, StepShape};

use super::{BadSample, LoaderError};
use crate::source::{Lengths, Source};

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

/// The memory that samples wait in for their step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// The capacity of the run, which is that of its device.
    Capacity(Bytes),
    /// What the host has beside a device with memory of its own.
    BesideDevice(Bytes),
}

impl HostMemory {
    /// Returns how much that is.
    pub const fn size(self) -> Bytes {
        let (Self::Capacity(size) | Self::BesideDevice(size)) = self;
        size
    }
}

/// At most this many steps are collated ahead: more would only be thrown away at the next change of the sizes.
const MAX_AHEAD: u64 = 4;

/// At least this many steps are collated ahead: one is filled while the other is trained with.
const LEAST_AHEAD: u64 = 2;

/// What the samples of the built-in data have always had room in, with steps to spare.
pub const USUAL_BUFFERS: Bytes = Bytes::mib(4);

/// One part in so many of the host's memory is little: four steps may have it.
const CHEAP: u64 = 64;

/// A stream holds no sample that takes more than one part in eight of the limit; this leaves room for as large a mate.
const SAMPLES_OF_STREAM: u64 = 16;

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

    /// Returns a limit that suits the samples and the host's memory: [`USUAL_BUFFERS`], or as much as two of the largest
    /// steps take, and up to four where those are a small part of `memory`.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferCapacity`] when two steps take more than half of `memory`.
    pub fn ample_limit<S: Source>(&self, source: &S, memory: HostMemory) -> Result<Bytes, LoaderError> {
        let least = self.least_limit(source, memory)?;
        Ok(least.max(self.steps_limit(source, MAX_AHEAD).min(Bytes(memory.size().0 / CHEAP))))
    }

    /// Returns a limit that no memory has a say in, but for refusing it: room for two steps.
    ///
    /// # Errors
    ///
    /// Those of [`LoaderConfig::ample_limit`].
    pub fn least_limit<S: Source>(&self, source: &S, memory: HostMemory) -> Result<Bytes, LoaderError> {
        let (capacity, is_on_host) = (memory.size(), matches!(memory, HostMemory::BesideDevice(_)));
        let Buffers { step, is_streamed } = self.step_buffers(source);
        let needed = self.steps_limit(source, LEAST_AHEAD);
        if USUAL_BUFFERS < needed && Bytes(capacity.0 / 2) < needed {
            let (needed, enough) = (needed.shown_up(), needed.saturating_mul(2).shown_up());
            return Err(LoaderError::BufferCapacity { step, is_streamed, needed, capacity, is_on_host, enough });
        }
        Ok(needed.max(USUAL_BUFFERS))
    }

    /// Refuses a limit into which no two steps fit.
    ///
    /// # Errors
    ///
    /// [`LoaderError::BufferLimit`].
    pub fn check_limit<S: Source>(&self, source: &S) -> Result<(), LoaderError> {
        self.n_ahead(source).map(drop)
    }

    /// Returns what the buffers of a loader take.
    pub(crate) fn held<S: Source>(&self, source: &S) -> Result<Bytes, LoaderError> {
        Ok(source.buffer_bytes(self.largest(&source.lengths())).saturating_mul(self.n_ahead(source)?))
    }

    /// Allocates the buffers of a loader.
    pub(crate) fn buffers<S: Source>(&self, source: &S) -> Result<Vec<S::Buffer>, LoaderError> {
        let largest = self.largest(&source.lengths());
        Ok((0..self.n_ahead(source)?).map(|_| source.buffer(largest)).collect())
    }

    /// Returns how many steps fit into the limit.
    fn n_ahead<S: Source>(&self, source: &S) -> Result<u64, LoaderError> {
        let (Buffers { step, is_streamed }, limit) = (self.step_buffers(source), self.buffer_limit);
        let share = if is_streamed { limit.0 / 2 } else { limit.0 };
        match (share / step.0.max(1)).min(MAX_AHEAD) {
            ahead if LEAST_AHEAD <= ahead => Ok(ahead),
            _ => {
                let needed = self.steps_limit(source, LEAST_AHEAD).shown_up();
                Err(LoaderError::BufferLimit { step, is_streamed, needed, limit })
            }
        }
    }

    /// Returns the least limit that has room for so many steps, and in a stream for samples of any length before them.
    fn steps_limit<S: Source>(&self, source: &S, n: u64) -> Bytes {
        let Buffers { step, is_streamed } = self.step_buffers(source);
        if !is_streamed {
            return step.saturating_mul(n);
        }
        let sample = source.buffer_bytes(StepShape::of(1, self.largest_extent));
        step.saturating_mul(2 * n).max(sample.saturating_mul(SAMPLES_OF_STREAM))
    }

    fn step_buffers<S: Source>(&self, source: &S) -> Buffers {
        // The other half is for samples that are read before they are planned.
        let lengths = source.lengths();
        let is_streamed = matches!(lengths, Lengths::Streamed { .. });
        Buffers { step: source.buffer_bytes(self.largest(&lengths)), is_streamed }
    }
}

/// What a step takes of the limit, which a stream has half of.
struct Buffers {
    step: Bytes,
    is_streamed: bool,
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::SampleIndex;

    use super::*;
    use crate::source::{Draw, SourceError};

    /// Samples of which each position takes a byte.
    struct Positions {
        is_streamed: bool,
    }

    impl Source for Positions {
        type Item = ();
        type Buffer = u64;

        fn n_samples(&self) -> u64 {
            9
        }

        fn lengths(&self) -> Lengths {
            if self.is_streamed { Lengths::Streamed { longest: Extent::new(u32::MAX) } } else { Lengths::Cut }
        }

        fn read(&self, _epoch: u64, _id: u64) -> Result<(), SourceError> {
            Ok(())
        }

        fn buffer_bytes(&self, largest: StepShape) -> Bytes {
            Bytes(largest.positions())
        }

        fn buffer(&self, largest: StepShape) -> u64 {
            largest.positions()
        }

        fn collate(&self, _draw: &Draw, _items: &[()], _buffer: &mut u64) -> Result<(), SourceError> {
            Ok(())
        }
    }

    /// A loader whose steps take this many bytes.
    fn steps_of(bytes: u64, limit: Bytes) -> LoaderConfig {
        LoaderConfig::cut(0, u32::try_from(bytes / 16).unwrap(), 16, limit)
    }

    #[test]
    fn a_limit_that_is_too_small_is_refused_with_one_that_will_do() {
        for is_streamed in [false, true] {
            let source = Positions { is_streamed };
            for kib in [1, 2560, 2561, 33_333] {
                let mut config = steps_of(kib << 10, Bytes(if is_streamed { kib << 12 } else { kib << 11 }));
                config.check_limit(&source).unwrap();
                config.buffer_limit.0 -= 1;
                let Err(error) = config.check_limit(&source) else { panic!("{kib} KiB are accepted") };
                let told = error.to_string();
                let value = told.split("buffer_limit = \"").nth(1).and_then(|it| it.split('"').next()).unwrap();
                let (step, as_much_again) = (Bytes::kib(kib), told.contains("as much again"));
                assert!(told.contains(&format!("two steps of {step} each")) && as_much_again == is_streamed, "{told}");
                config.buffer_limit = value.parse().unwrap();
                config.check_limit(&source).unwrap();
                assert_eq!(config.buffers(&source).unwrap().len(), 2, "{told}");
            }
        }
    }

    #[test]
    fn an_ample_limit_is_the_usual_one_until_two_steps_need_more() {
        let check = |kib: u64, capacity: Bytes, is_streamed, expected: Bytes, n_steps: usize| {
            let (source, config) = (Positions { is_streamed }, steps_of(kib << 10, Bytes::ZERO));
            let limit = config.ample_limit(&source, HostMemory::Capacity(capacity)).unwrap();
            assert_eq!(limit, expected, "steps of {kib} KiB");
            let config = LoaderConfig { buffer_limit: limit, ..config };
            assert_eq!(config.buffers(&source).unwrap().len(), n_steps, "steps of {kib} KiB");
        };
        let small = Bytes::mib(40);
        check(1, small, false, Bytes::mib(4), 4);
        check(2048, small, false, Bytes::mib(4), 2);
        check(2049, small, false, Bytes::kib(4098), 2);
        check(10_240, small, false, Bytes::mib(20), 2);
        check(1024, small, true, Bytes::mib(4), 2);
        check(2560, small, true, Bytes::mib(10), 2);
        // Where it is cheap, three or four.
        check(10_240, Bytes::mib(2048), false, Bytes::mib(32), 3);
        check(10_240, Bytes::gib(8), false, Bytes::mib(40), 4);
        check(10_240, Bytes::gib(8), true, Bytes::mib(80), 4);
    }

    #[test]
    fn a_stream_of_steps_of_one_sample_has_room_for_the_longest() {
        let config = LoaderConfig::cut(0, 1, 2 << 20, Bytes::ZERO);
        let limit = config.ample_limit(&Positions { is_streamed: true }, HostMemory::Capacity(Bytes::gib(1))).unwrap();
        // An eighth of the limit is what one sample may take.
        assert!(Bytes::mib(2) <= Bytes(limit.0 / 8), "{limit}");
    }

    #[test]
    fn steps_that_take_more_than_half_of_the_memory_are_refused_with_what_would_help() {
        let (source, config) = (Positions { is_streamed: false }, steps_of(11 << 20, Bytes::ZERO));
        for (memory, whose, more) in [
            (HostMemory::Capacity(Bytes::mib(40)), "there are", "a capacity of"),
            (HostMemory::BesideDevice(Bytes::mib(40)), "the host has free, beside the device's own", "a host with"),
        ] {
            let expected = format!(
                "load ahead: two steps of 11.00 MiB each need 22.00 MiB, more than half of the 40.00 MiB that {whose}; a \
                 smaller `batch.effective_batch_size`, {more} 44.00 MiB or `data.buffer_limit = \"22.00 MiB\"` would help"
            );
            assert_eq!(config.ample_limit(&source, memory).unwrap_err().to_string(), expected);
        }
        assert_eq!(config.ample_limit(&source, HostMemory::Capacity(Bytes::mib(44))).unwrap(), Bytes::mib(22));
    }

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
