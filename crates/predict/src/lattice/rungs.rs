//! The batch sizes of a lattice.

use crate::PredictError;

/// Batches up to this one are all rungs; above, each doubling has half as many.
const DENSE: u32 = 16;

/// Returns batch sizes from 1 to `max` such that half of each, rounded up, is one as well, smallest first.
///
/// The rule: every batch up to 16, then eight to a doubling (18, 20, .. 32, 36, 40, .. 64, 72, ..), and `max` with what it
/// halves to.
/// The next larger rung is at most 12.5 % larger, 9 % on average, so that the largest rung that fits wastes about half
/// of that.
/// A batch that fails can be split until one sample is left, and each part is a shape of the lattice.
/// Apart from the last few, rungs do not depend on `max`: what is known of a shape serves another run too.
///
/// # Errors
///
/// [`PredictError::NoCell`] for a `max` of zero.
pub fn rungs(max: u32) -> Result<Vec<u32>, PredictError> {
    if max == 0 {
        return Err(PredictError::NoCell("max_batch_size"));
    }
    let mut rungs: Vec<u32> = grid(max).chain(halvings(max)).collect();
    rungs.sort_unstable();
    rungs.dedup();
    Ok(rungs)
}

/// Returns all numbers up to `max` with at most four significant binary digits, each doubling once.
fn grid(max: u32) -> impl Iterator<Item = u32> {
    let next = move |batch: &u32| {
        let step = if *batch < DENSE { 1 } else { 1 << (batch.ilog2() - 3) };
        batch.checked_add(step).filter(|it| *it <= max)
    };
    std::iter::successors(Some(1), next)
}

/// Returns the batch and all that it is split into, half by half, down to 1.
fn halvings(batch: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(batch), |it| (*it > 1).then(|| it.div_ceil(2)))
}

/// Returns a rung whose half is no rung; the rungs are sorted.
pub(super) fn not_halvable(rungs: &[u32]) -> Option<u32> {
    rungs.iter().copied().find(|rung| rungs.binary_search(&rung.div_ceil(2)).is_err())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rungs_are_those_of_the_rule() {
        assert_eq!(rungs(1).unwrap(), [1]);
        assert_eq!(rungs(22).unwrap()[14..], [15, 16, 18, 20, 22]);
        assert_eq!(rungs(37).unwrap()[16..], [18, 19, 20, 22, 24, 26, 28, 30, 32, 36, 37]);
        assert_eq!(rungs(0).unwrap_err().to_string(), "find a shape: `max_batch_size` is 0, but must be at least 1");
    }

    proptest! {
        #[test]
        fn half_of_each_rung_is_a_rung_and_the_next_is_near(max in prop_oneof![1..600u32, 1..=u32::MAX]) {
            let rungs = rungs(max).unwrap();
            prop_assert_eq!((rungs[0], rungs.last(), not_halvable(&rungs)), (1, Some(&max), None));
            for pair in rungs.windows(2) {
                let is_next = pair[1] == pair[0] + 1;
                prop_assert!(pair[0] < pair[1] && (is_next || f64::from(pair[1]) <= 1.125 * f64::from(pair[0])), "{pair:?}");
            }
        }
    }
}
