//! The plain way to plan an epoch, to be compared with.

use crate::finder::Random;

/// Batches of ids in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Sample ids.
    pub ids: Vec<u32>,
    /// Where each batch ends.
    pub offsets: Vec<usize>,
}

impl Filled {
    pub(super) fn of<'a>(batches: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut filled = Self::default();
        batches.into_iter().for_each(|batch| filled.push(batch.iter().copied()));
        filled
    }

    /// The ids of each batch.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> + Clone {
        let start = |batch: usize| batch.checked_sub(1).map_or(0, |before| self.offsets[before]);
        self.offsets.iter().enumerate().map(move |(batch, end)| &self.ids[start(batch)..*end])
    }

    fn push(&mut self, batch: impl Iterator<Item = u32>) {
        self.ids.extend(batch);
        self.offsets.push(self.ids.len());
    }
}

/// Shuffles all ids (Fisher and Yates), sorts each window by length (the standard library's unstable sort), fills it
/// longest first under a budget on each axis, and shuffles the window's batches.
///
/// Each sample fits alone; those of several axes are sorted by the first and, where that is equal, by the next.
pub fn shuffle_sort_fill<const AXES: usize>(
    lengths: &[Vec<u32>; AXES],
    budget: [u64; AXES],
    window: usize,
    seed: u64,
) -> Filled {
    let mut random = Random::new(seed);
    let n_samples = lengths[0].len();
    let ids = shuffled(n_samples, &mut random);
    let mut filled = Filled { ids: Vec::with_capacity(n_samples), offsets: Vec::new() };
    let mut samples = Vec::new();
    for window in ids.chunks(window.max(1)) {
        samples.clear();
        samples.extend(window.iter().map(|id| (lengths.each_ref().map(|axis| axis[*id as usize]), *id)));
        samples.sort_unstable_by_key(|(lengths, _)| key(lengths));
        let mut batches = batches(&samples, budget);
        shuffle(&mut batches, &mut random);
        for batch in batches {
            filled.push(batch.iter().rev().map(|(_, id)| *id));
        }
    }
    filled
}

fn key(lengths: &[u32]) -> u64 {
    lengths.iter().fold(0, |key, length| (key << 32) | u64::from(*length))
}

/// Cuts sorted samples into batches from the last to the first.
fn batches<const AXES: usize>(samples: &[([u32; AXES], u32)], budget: [u64; AXES]) -> Vec<&[([u32; AXES], u32)]> {
    let (mut batches, mut end) = (Vec::new(), samples.len());
    let mut longest = [0u32; AXES];
    for start in (0..samples.len()).rev() {
        let mut with = longest;
        for (with, length) in with.iter_mut().zip(samples[start].0) {
            *with = length.max(*with);
        }
        let n = (end - start) as u64;
        if with.iter().zip(budget).any(|(longest, budget)| n * u64::from(*longest) > budget) {
            batches.push(&samples[start + 1..end]);
            (end, with) = (start + 1, samples[start].0);
        }
        longest = with;
    }
    batches.push(&samples[..end]);
    batches
}

/// So many ids in random order.
pub(super) fn shuffled(n: usize, random: &mut Random) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..).take(n).collect();
    shuffle(&mut ids, random);
    ids
}

/// Puts items in random order (Fisher and Yates).
pub(super) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        let draw = ((random.next_u64() >> 32) * (last as u64 + 1)) >> 32;
        items.swap(last, usize::try_from(draw).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_once_and_no_batch_exceeds_the_budget() {
        let lengths = [super::super::chats(5_000)];
        let filled = shuffle_sort_fill(&lengths, [8_192], 700, 3);
        let longest = |ids: &[u32]| ids.iter().map(|id| u64::from(lengths[0][*id as usize])).max();
        for ids in filled.iter() {
            assert!(longest(ids).is_some_and(|it| it * ids.len() as u64 <= 8_192));
        }
        let mut ids = filled.ids;
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..5_000));
    }

    #[test]
    fn one_window_needs_the_fewest_batches() {
        // 5 and 4 fit together under 10, 3 with 2 and 1; no plan has one batch.
        let filled = shuffle_sort_fill(&[vec![1, 2, 3, 4, 5]], [10], 5, 1);
        let mut sizes: Vec<_> = filled.iter().map(<[u32]>::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [2, 3]);
    }
}
