//! One optimizer step as micro-batches.

/// Cuts the ids of one optimizer step into micro-batches: full ones first, the ragged tail last.
///
/// # Panics
///
/// When `micro_batch_size` is zero.
pub fn split(ids: &[u64], micro_batch_size: u32) -> Vec<&[u64]> {
    ids.chunks(micro_batch_size as usize).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ragged_tail_comes_last() {
        assert_eq!(split(&[5, 3, 9, 1, 7], 2), [&[5, 3][..], &[9, 1], &[7]]);
        assert_eq!(split(&[5, 3], 4), [&[5, 3]]);
        assert!(split(&[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_or_repeated(ids in prop::collection::vec(any::<u64>(), 0..50), size in 1u32..20) {
            let parts = split(&ids, size);
            prop_assert!(parts.iter().rev().skip(1).all(|part| part.len() == size as usize));
            prop_assert_eq!(parts.concat(), ids);
        }
    }
}
