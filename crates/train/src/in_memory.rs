//! Samples that lie in memory.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::{SampleIndex, SamplerError};
use plimsoll_types::{Bytes, Extent, StepShape};

use crate::source::{Draw, Item, Lengths, Source, SourceError};

/// Samples that lie in memory, for a job of one's own: nothing is read, and nothing copied.
///
/// Those of one size have the edge 1 in every shape; others are padded by whoever makes their batch.
#[derive(Clone, Debug)]
pub struct InMemory<T> {
    samples: Arc<[T]>,
    lengths: Option<SampleIndex<1>>,
}

impl<T> InMemory<T> {
    /// Holds samples that are all of one size.
    pub fn of_one_size(samples: impl IntoIterator<Item = T>) -> Self {
        Self { samples: samples.into_iter().collect(), lengths: None }
    }

    /// Holds samples of these lengths, such as their tokens.
    ///
    /// # Errors
    ///
    /// [`SamplerError`] when there is none, or one has no length.
    pub fn padded(samples: impl IntoIterator<Item = T>, length: impl Fn(&T) -> u32) -> Result<Self, SamplerError> {
        let samples: Arc<[T]> = samples.into_iter().collect();
        let lengths: Arc<[u32]> = samples.iter().map(length).collect();
        let index = SampleIndex::try_new([lengths])?;
        Ok(Self { samples, lengths: Some(index) })
    }

    /// Returns the samples.
    pub fn samples(&self) -> &[T] {
        &self.samples
    }

    fn length(&self, id: u64) -> u32 {
        self.lengths.as_ref().and_then(|index| index.get(id)).map_or(1, |[length]| length)
    }
}

/// The samples of a step, where they lie.
#[derive(Clone, Debug)]
pub struct Drawn<T> {
    samples: Arc<[T]>,
    draw: Draw,
    /// Their places among all.
    places: Vec<usize>,
}

impl<T> Drawn<T> {
    /// Returns some of the step's samples, in order.
    pub fn samples(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = &T> {
        self.places[range].iter().map(|place| &self.samples[*place])
    }

    /// Returns the length that some of the step's samples are padded to, which lie in one part of it.
    pub fn edge(&self, range: &Range<usize>) -> u32 {
        let ends = self.draw.parts.iter().scan(0, |end, part| {
            *end += part.ids.len();
            Some((*end, part.extent.edge()))
        });
        ends.into_iter().find(|(end, _)| range.start < *end).map_or(0, |(_, edge)| edge)
    }
}

/// The length of a sample that stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Length(u32);

impl Item for Length {
    fn extent(&self) -> Extent {
        self.0.into()
    }
}

impl<T: Send + Sync + 'static> Source for InMemory<T> {
    type Item = Length;
    type Buffer = Drawn<T>;

    fn n_samples(&self) -> u64 {
        self.samples.len() as u64
    }

    fn lengths(&self) -> Lengths {
        self.lengths.clone().map_or(Lengths::Cut, |it| Lengths::Known(it.into()))
    }

    fn smaller(&self) -> &'static str {
        "a shorter sample"
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<Length, SourceError> {
        Ok(Length(self.length(id)))
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        Bytes(largest.positions().saturating_mul(size_of::<usize>() as u64))
    }

    fn buffer(&self, largest: StepShape) -> Drawn<T> {
        let places = Vec::with_capacity(usize::try_from(largest.positions()).unwrap_or(0));
        Drawn { samples: Arc::clone(&self.samples), draw: Draw { epoch: 0, parts: Vec::new() }, places }
    }

    fn collate(&self, draw: &Draw, _items: &[Length], buffer: &mut Drawn<T>) -> Result<(), SourceError> {
        buffer.draw.clone_from(draw);
        buffer.places.clear();
        for id in draw.ids() {
            let place = usize::try_from(id).ok().filter(|it| *it < self.samples.len());
            let gone = || SourceError { sample_id: id, reason: format!("there are {} samples", self.samples.len()) };
            buffer.places.push(place.ok_or_else(gone)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Part;

    #[test]
    fn a_step_has_the_samples_that_were_drawn_and_the_edge_of_their_part() {
        let words = ["a", "bb", "ccc", "dd"];
        let source = InMemory::padded(words, |it| u32::try_from(it.len()).unwrap()).unwrap();
        let part = |ids: &[u64], edge| Part::new(ids.to_vec(), edge);
        let draw = Draw { epoch: 0, parts: vec![part(&[3, 0, 1], 2), part(&[2], 3)] };
        let items: Vec<_> = draw.ids().map(|id| source.read(0, id).unwrap()).collect();
        assert_eq!(items.iter().map(|it| it.extent().edge()).collect::<Vec<_>>(), [2, 1, 2, 3]);
        let mut buffer = source.buffer(StepShape::new(4, 3));
        source.collate(&draw, &items, &mut buffer).unwrap();
        assert_eq!(buffer.samples(0..3).copied().collect::<Vec<_>>(), ["dd", "a", "bb"]);
        assert_eq!((buffer.edge(&(1..3)), buffer.edge(&(3..4))), (2, 3));
        assert!(source.collate(&Draw::of_extent(0, vec![4], 3), &[], &mut buffer).is_err());
    }

    #[test]
    fn samples_of_one_size_have_no_length() {
        let source = InMemory::of_one_size([1.5, 2.5]);
        assert_eq!((source.lengths(), source.n_samples()), (Lengths::Cut, 2));
        assert_eq!(source.read(0, 1).unwrap().extent().edge(), 1);
        assert!(InMemory::padded(["", "a"], |it| u32::try_from(it.len()).unwrap()).is_err());
    }
}
