//! Hugging Face's `group_by_length`.

use super::super::reference::{Filled, shuffled};
use crate::finder::Random;

/// Batches in a group that is sorted, at most.
const BATCHES: usize = 50;

/// Sorts groups of at most 50 batches of a random order from the longest to the shortest, and cuts them into batches of as many
/// samples as fit if all are as long as the longest; the batch of the longest sample comes first.
pub(super) fn group_by_length(lengths: &[Vec<u32>; 1], [budget]: [u64; 1], epoch: u64) -> Filled {
    let length = |id: &u32| lengths[0][*id as usize];
    let mut ids = shuffled(lengths[0].len(), &mut Random::new(epoch));
    let longest = u64::from(ids.iter().map(length).max().unwrap_or(1));
    let batch = usize::try_from(budget / longest).unwrap_or(usize::MAX).max(1);
    let of_group = batch * (ids.len() / (batch * 4)).clamp(1, BATCHES);
    let (mut first, mut most) = (0, 0);
    for (group, start) in ids.chunks_mut(of_group).zip((0..).step_by(of_group)) {
        group.sort_by_key(|id| std::cmp::Reverse(length(id)));
        if length(&group[0]) > most {
            (first, most) = (start, length(&group[0]));
        }
    }
    ids.swap(0, first);
    Filled::of(ids.chunks(batch))
}
