//! How much of the host's memory steps may wait in.

use plimsoll_types::{Bytes, StepShape};

use super::{LoaderConfig, LoaderError};
use crate::source::{Lengths, Source};

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
    use plimsoll_types::Extent;

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
}
