//! Tensors that no page can hold.

use plimsoll_types::{Bytes, StepShape};

/// How far the largest allocation may fall short of growing with the batch before one is missing.
///
/// Alignment (at most 512 bytes a tensor) and tensors that do not depend on the batch are the only other reasons, and
/// both are far below 1 % of a tensor near the limit.
const SHORTFALL: f64 = 0.99;

/// Finds allocations that failed in a rehearsal.
///
/// An allocation above the page limit fails without a word, and the largest allocation that is reported is then a
/// smaller one.
/// The largest tensor of a step grows at least as its batch does beyond some shape, so a largest allocation that grew
/// less, where growing would have passed the limit, gives it away.
#[derive(Clone, Debug)]
pub(crate) struct PageLimit {
    limit: Bytes,
    /// Largest allocations of rehearsals in which none failed.
    whole: Vec<(StepShape, Bytes)>,
}

impl PageLimit {
    pub(crate) fn new(limit: Bytes) -> Self {
        Self { limit, whole: Vec::new() }
    }

    /// Notes a rehearsal, and returns the size of the tensor that did not fit, if there was one.
    pub(crate) fn failed(&mut self, shape: StepShape, largest: Bytes) -> Option<Bytes> {
        let grown = self.whole.iter().filter(|(it, _)| it.edge == shape.edge && it.samples <= shape.samples);
        let expected = grown.map(|(it, largest)| {
            Bytes::from_f64_ceil(largest.as_f64() * f64::from(shape.samples) / f64::from(it.samples))
        });
        // Of a smaller edge only that it needs no more is known.
        let covered = self.whole.iter().filter(|(it, _)| shape.covers(*it)).map(|(_, largest)| *largest);
        let expected = expected.min().into_iter().chain(covered).max().unwrap_or_default();
        let fell_short = largest.as_f64() < expected.as_f64() * SHORTFALL;
        if fell_short && self.limit < expected {
            return Some(expected);
        }
        self.whole.push((shape, largest));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_that_did_not_grow_with_its_batch_has_failed() {
        let mut limit = PageLimit::new(Bytes::mib(100));
        assert_eq!(limit.failed(StepShape::new(1, 64), Bytes::mib(30)), None);
        assert_eq!(limit.failed(StepShape::new(3, 64), Bytes::mib(90)), None);
        assert_eq!(limit.failed(StepShape::new(4, 64), Bytes::mib(60)), Some(Bytes::mib(120)));
        assert_eq!(limit.failed(StepShape::new(8, 64), Bytes::mib(80)), Some(Bytes::mib(240)));
        assert_eq!(limit.failed(StepShape::new(2, 32), Bytes::mib(15)), None);
    }

    #[test]
    fn a_tensor_that_does_not_depend_on_the_batch_has_not() {
        let mut limit = PageLimit::new(Bytes::mib(100));
        assert_eq!(limit.failed(StepShape::new(1, 64), Bytes::mib(90)), None, "an embedding, say");
        assert_eq!(limit.failed(StepShape::new(1, 128), Bytes::mib(90)), None);
    }
}
