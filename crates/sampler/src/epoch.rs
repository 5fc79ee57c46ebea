//! Which samples come next.

use serde::{Deserialize, Serialize};

use crate::{IndexError, Permutation};

/// A place in an endless sequence of shuffled epochs; four numbers, which a checkpoint keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochCursor {
    /// Samples in one epoch.
    pub n_samples: u64,
    /// Where the order comes from, together with the epoch.
    pub seed: u64,
    /// The epoch that the next draw belongs to, from 0.
    pub epoch: u64,
    /// Samples of that epoch that are already drawn.
    pub position: u64,
}

impl EpochCursor {
    /// Stands before the first sample of epoch 0.
    ///
    /// # Errors
    ///
    /// [`IndexError::NoSamples`] when `n_samples` is zero.
    pub fn try_new(n_samples: u64, seed: u64) -> Result<Self, IndexError> {
        if n_samples == 0 {
            return Err(IndexError::NoSamples);
        }
        Ok(Self { n_samples, seed, epoch: 0, position: 0 })
    }

    /// Draws the next `k` sample ids of the current epoch, or as many as it has left, and says which epoch that is.
    ///
    /// A draw never crosses an epoch, so the last one of an epoch may be short; the next draw starts the next epoch.
    pub fn take(&mut self, k: u64) -> (u64, Vec<u64>) {
        let epoch = self.epoch;
        let permutation = Permutation::new(self.n_samples, self.seed, epoch);
        let end = self.position.saturating_add(k).min(self.n_samples);
        let ids = (self.position..end).map(|i| permutation.at(i)).collect();
        self.position = end;
        if end == self.n_samples {
            self.epoch += 1;
            self.position = 0;
        }
        (epoch, ids)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that these draws bring, each id with its epoch.
    fn drawn(cursor: &mut EpochCursor, sizes: &[u64]) -> Vec<(u64, u64)> {
        let draw = |size: &u64| {
            let (epoch, ids) = cursor.take(*size);
            ids.into_iter().map(move |id| (epoch, id))
        };
        sizes.iter().flat_map(draw).collect()
    }

    #[test]
    fn the_last_draw_of_an_epoch_is_short() {
        let mut cursor = EpochCursor::try_new(10, 1).unwrap();
        let sizes: Vec<_> = (0..5).map(|_| cursor.take(4)).map(|(epoch, ids)| (epoch, ids.len())).collect();
        assert_eq!(sizes, [(0, 4), (0, 4), (0, 2), (1, 4), (1, 4)]);
        assert_eq!((cursor.epoch, cursor.position), (1, 8));
    }

    #[test]
    fn a_whole_epoch_may_be_drawn_at_once() {
        let mut cursor = EpochCursor::try_new(10, 1).unwrap();
        assert_eq!(cursor.take(u64::MAX).1.len(), 10);
        assert_eq!((cursor.epoch, cursor.position), (1, 0));
    }

    #[test]
    fn an_empty_data_set_is_refused() {
        let error = EpochCursor::try_new(0, 1).unwrap_err();
        assert_eq!(error.to_string(), "start an epoch: the data set has no samples");
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_sizes_drawn(
            n in 1u64..60, seed: u64, sizes in prop::collection::vec(0u64..20, 0..40)
        ) {
            let start = EpochCursor::try_new(n, seed).unwrap();
            let any = drawn(&mut start.clone(), &sizes);
            let single = drawn(&mut start.clone(), &vec![1; any.len()]);
            prop_assert_eq!(&any, &single);
            for (index, (epoch, _)) in (0..).zip(&any) {
                prop_assert_eq!(index / n, *epoch);
            }
        }

        #[test]
        fn a_restored_cursor_draws_what_an_uninterrupted_one_draws(
            n in 1u64..60, seed: u64, before in prop::collection::vec(0u64..20, 0..20), after in 0u64..100
        ) {
            let mut cursor = EpochCursor::try_new(n, seed).unwrap();
            drawn(&mut cursor, &before);
            let saved = serde_json::to_string(&cursor).unwrap();
            let mut restored: EpochCursor = serde_json::from_str(&saved).unwrap();
            prop_assert_eq!(&restored, &cursor);
            prop_assert_eq!(drawn(&mut restored, &[after; 3]), drawn(&mut cursor, &[after; 3]));
        }
    }
}
