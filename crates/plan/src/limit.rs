//! Tensors that no page can hold.

use plimsoll_types::{Bytes, StepShape};

/// How far the largest allocation may fall short of what it must be at least.
///
/// Alignment, at most 512 bytes a tensor, is the only reason besides a failure, and far below 1 % of a tensor near the
/// limit.
const SHORTFALL: f64 = 0.99;

/// Finds allocations that failed in a rehearsal.
///
/// An allocation above the page limit fails without a word: no launch is there to inherit the failure, a scalar that
/// depends on it reads as any other (run on `CubeCL` 0.11.3), and the largest allocation that is reported is a smaller
/// one.
///
/// Sizes of tensors are non-negative combinations of 1, `n`, `n·e` and `n·e²`, so that the largest of them is a convex
/// function of the batch `n` at one edge `e`.
/// Beyond two batches it therefore lies on or above the line through them: a largest allocation below that line, where
/// the line is above the limit, gives the failure away.
/// A tensor that does not depend on the batch leaves the line flat, and is never taken for a failure.
///
/// A tensor that overtakes all others only beyond the two batches, and is above the limit at once, stays unseen.
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

    /// Whether this shape was rehearsed, and nothing failed.
    pub(crate) fn knows(&self, shape: StepShape) -> bool {
        self.whole.iter().any(|(it, _)| *it == shape)
    }

    /// Notes a rehearsal, and returns the size of the tensor that did not fit, if there was one.
    ///
    /// `largest` is `None` where the stream's history hides it.
    pub(crate) fn failed(&mut self, shape: StepShape, largest: Option<Bytes>) -> Option<Bytes> {
        let largest = largest?;
        let least = self.least(shape);
        if self.limit < least && largest.as_f64() < least.as_f64() * SHORTFALL {
            return Some(least);
        }
        self.whole.push((shape, largest));
        None
    }

    /// Returns the least that the largest allocation of a shape can be.
    fn least(&self, shape: StepShape) -> Bytes {
        let mut row: Vec<(f64, f64)> = (self.whole.iter())
            .filter(|(it, _)| it.extent() == shape.extent() && it.samples < shape.samples)
            .map(|(it, largest)| (f64::from(it.samples), largest.as_f64()))
            .collect();
        row.sort_by(|a, b| a.0.total_cmp(&b.0));
        let beyond = |pair: &[(f64, f64)]| {
            let [(n, size), (m, other)] = [pair[0], pair[1]];
            other + (other - size) / (m - n).max(1.0) * (f64::from(shape.samples) - m)
        };
        let line = row.windows(2).map(beyond).fold(0.0, f64::max);
        // Of a smaller edge or batch only that it needs no more is known.
        let covered = self.whole.iter().filter(|(it, _)| shape.covers(*it)).map(|(_, largest)| *largest).max();
        Bytes::from_f64_ceil(line).max(covered.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: &mut PageLimit, samples: u32, mib: u64, failed: Option<u64>) {
        let found = limit.failed(StepShape::new(samples, 64), Some(Bytes::mib(mib)));
        assert_eq!(found, failed.map(Bytes::mib), "{samples}");
    }

    #[test]
    fn a_tensor_that_did_not_grow_with_its_batch_has_failed() {
        let mut limit = PageLimit::new(Bytes::mib(100));
        check(&mut limit, 1, 30, None);
        check(&mut limit, 2, 60, None);
        check(&mut limit, 3, 90, None);
        check(&mut limit, 4, 60, Some(120));
        check(&mut limit, 8, 80, Some(240));
    }

    #[test]
    fn a_tensor_that_does_not_depend_on_the_batch_has_not() {
        let mut limit = PageLimit::new(Bytes::mib(100));
        for samples in [1, 2, 4, 8, 64] {
            check(&mut limit, samples, 90, None);
        }
        check(&mut limit, 95, 95, None);
        check(&mut limit, 100, 100, None);
        check(&mut limit, 200, 90, Some(200));
    }

    #[test]
    fn a_size_that_history_hides_teaches_nothing() {
        let mut limit = PageLimit::new(Bytes::mib(100));
        assert_eq!(limit.failed(StepShape::new(1, 64), None), None);
        assert!(!limit.knows(StepShape::new(1, 64)));
    }
}
