//! A bound on what an allocator with pages reserves for a batch that was not tried.

use plimsoll_predict::{Certificate, PredictError, ShapeNeed, page_for};
use plimsoll_types::{Bytes, Fraction, StepShape};

use super::oracle::{Pool, Reading};

/// Bounds what a step of any batch of one edge takes, from trials of other batches.
///
/// What is in use is at most what is reserved, so that a [`Certificate`] over the reserved bytes bounds the bytes in
/// use of any batch by some `need`.
/// Reserved are `ceil(in use / page)` pages, `page` being that of the largest allocation, which a second certificate
/// bounds from above, and a line through two trials from below: it is the largest of tensors that are each linear in
/// the batch, and so convex.
/// Hence, with `low <= page <= high`, the smaller of `need + high` and `ceil(need / low) · high` is never exceeded.
/// Pages that are held beyond these count as in use: not proved, but none of 50 000 random cases exceeded the bound.
/// Without pages the bound is `need`.
/// In the end the noise is added to what is above the resident bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PagedBound {
    edge: u32,
    noise: f64,
    resident: Bytes,
    needs: Certificate,
    largest: Certificate,
    /// Batch and largest allocation of the trials, in their order.
    sizes: Vec<(u32, Bytes)>,
}

impl PagedBound {
    /// Starts without a trial.
    pub fn new(edge: u32, noise: Fraction) -> Self {
        let (needs, largest) = (Certificate::default(), Certificate::default());
        Self { edge, noise: noise.get(), resident: Bytes::ZERO, needs, largest, sizes: Vec::new() }
    }

    /// Learns what a step was measured to take.
    ///
    /// # Errors
    ///
    /// [`PredictError`] for a batch of nothing, or one that needed nothing.
    pub fn observe(&mut self, batch: u32, reading: Reading) -> Result<(), PredictError> {
        let shape = StepShape::new(batch, self.edge);
        let need = match reading.pool {
            Some(pool) => pool.reserved.saturating_sub(reading.resident),
            // The peak may have been read low.
            None => scaled(reading.peak.saturating_sub(reading.resident), 1.0 / (1.0 - self.noise)),
        };
        self.needs.observe(ShapeNeed { shape, need })?;
        if let Some(Pool { largest, .. }) = reading.pool {
            self.largest.observe(ShapeNeed { shape, need: largest })?;
            self.sizes.push((batch, largest));
        }
        self.resident = self.resident.max(reading.resident);
        Ok(())
    }

    /// Returns the most that a step of this batch takes, or `None` before the first trial.
    pub fn upper(&self, batch: u32) -> Option<Bytes> {
        let shape = StepShape::new(batch, self.edge);
        let need = self.resident.saturating_add(self.needs.bound(shape)?);
        let reserved = match self.largest.bound(shape) {
            Some(most) => in_pages(need, page_for(self.least(batch)), page_for(most)),
            None => need,
        };
        let above = reserved.saturating_sub(self.resident);
        Some(self.resident.saturating_add(scaled(above, 1.0 + self.noise)))
    }

    /// Returns the least that the largest allocation of a batch can be.
    fn least(&self, batch: u32) -> Bytes {
        let seen = self.largest.lower(StepShape::new(batch, self.edge));
        match self.sizes[..] {
            [.., (a, at_a), (b, at_b)] if a < b && b < batch => {
                let per_sample = at_b.saturating_sub(at_a).as_f64() / f64::from(b - a);
                let line = at_b.as_f64() + per_sample * f64::from(batch - b);
                seen.max(Bytes::from_f64_ceil(line.floor() - 1.0))
            }
            _ => seen,
        }
    }
}

/// Returns the most that `need` bytes take in pages of a size between `low` and `high`.
fn in_pages(need: Bytes, low: Bytes, high: Bytes) -> Bytes {
    need.saturating_add(high).min(high.saturating_mul(need.0.div_ceil(low.0.max(1))))
}

fn scaled(bytes: Bytes, factor: f64) -> Bytes {
    Bytes::from_f64_ceil(bytes.as_f64() * factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A device that reserves in pages for its largest tensor.
    fn reading(batch: u32, (resident, constant, slope): (u64, u64, u64), tensors: &[(u64, u64)], held: u64) -> Reading {
        let line = |constant: u64, slope: u64| constant + slope * u64::from(batch);
        let largest = Bytes(tensors.iter().map(|it| line(it.0, it.1)).max().unwrap_or(1));
        let (page, need) = (page_for(largest), resident + line(constant, slope));
        let reserved = page.saturating_mul(need.div_ceil(page.0) + held);
        Reading { resident: Bytes(resident), peak: reserved, pool: Some(Pool { reserved, largest }) }
    }

    proptest! {
        #[test]
        fn no_batch_takes_more_than_its_bound(
            law in (0u64..1 << 30, 1u64..1 << 28, 1u64..1 << 26),
            tensors in prop::collection::vec((1u64..1 << 24, 1u64..1 << 22), 1..4),
            tried in prop::collection::vec(1u32..3000, 1..5), batch in 1u32..4000, held in 0u64..2,
        ) {
            let mut bound = PagedBound::new(8, Fraction::ZERO);
            let mut tried = tried;
            tried.sort_unstable();
            for it in &tried {
                bound.observe(*it, reading(*it, law, &tensors, held)).unwrap();
            }
            let (upper, taken) = (bound.upper(batch).unwrap(), reading(batch, law, &tensors, held).peak);
            prop_assert!(taken <= upper, "{taken} of {upper} after {tried:?}");
        }
    }

    #[test]
    fn two_trials_fix_the_page_of_a_tensor_that_is_proportional_to_the_batch() {
        let (law, tensors) = ((1 << 30, 1 << 20, 45 << 20), [(0, 4_000_000)]);
        let mut bound = PagedBound::new(8, Fraction::ZERO);
        for batch in [10, 100] {
            bound.observe(batch, reading(batch, law, &tensors, 0)).unwrap();
        }
        assert_eq!(bound.upper(110), Some(reading(110, law, &tensors, 0).peak));
    }
}
