//! fairseq's `batch_by_size`.

use super::super::reference::{Filled, shuffle, shuffled};
use crate::finder::Random;

/// Takes samples from the shortest to the longest, those of one length in random order, into a batch until it would exceed
/// the budget; what is beyond a multiple begins the next batch. The batches are shuffled.
///
/// The tool batches once and shuffles the batches for each epoch, unless an epoch is told to have an order of its own, as here.
pub(super) fn batch_by_size<const MULTIPLE: usize>(lengths: &[Vec<u32>; 1], [budget]: [u64; 1], epoch: u64) -> Filled {
    let mut random = Random::new(epoch);
    let length = |id: &u32| lengths[0][*id as usize];
    let mut ids = shuffled(lengths[0].len(), &mut random);
    ids.sort_by_key(length);
    let (mut batches, mut start, mut longest) = (Vec::new(), 0, 0);
    for (at, id) in ids.iter().enumerate() {
        longest = length(id).max(longest);
        let n = at - start;
        if n > 0 && (n as u64 + 1) * u64::from(longest) > budget {
            let whole = (n - n % MULTIPLE).max(n % MULTIPLE);
            batches.push(&ids[start..start + whole]);
            start += whole;
            longest = length(id);
        }
    }
    batches.push(&ids[start..]);
    shuffle(&mut batches, &mut random);
    Filled::of(batches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(filled: &Filled) -> Vec<usize> {
        let mut sizes: Vec<_> = filled.iter().map(<[u32]>::len).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn what_is_beyond_a_multiple_begins_the_next_batch() {
        // Seven of length 3 fit under 21, of which two are beyond five.
        let lengths = [vec![3; 14]];
        assert_eq!(sizes(&batch_by_size::<1>(&lengths, [21], 0)), [7, 7]);
        assert_eq!(sizes(&batch_by_size::<5>(&lengths, [21], 0)), [4, 5, 5]);
        // Fewer than a multiple are a batch.
        assert_eq!(sizes(&batch_by_size::<8>(&lengths, [21], 0)), [7, 7]);
    }
}
