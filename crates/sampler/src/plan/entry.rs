//! A sample in the window, and sorting.

/// A sample in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<const AXES: usize> {
    /// The lengths that it is planned with.
    pub(super) lengths: [u32; AXES],
    /// Its id.
    pub(super) id: u32,
}

impl<const AXES: usize> Entry<AXES> {
    pub(super) const NONE: Self = Self { lengths: [0; AXES], id: 0 };
}

/// The most bits of a key that one pass sorts by: 8 192 counters just fit into the nearest cache, and save a second pass.
const DIGIT: u32 = 13;

/// Fewer entries than this are sorted by comparing.
const FEW: usize = 128;

/// Sorts by a key of at most `most`, the smallest first; entries of one key keep their order, which is a random one.
///
/// Says whether they are in `spare` then, which has as many places and whose contents mean nothing before: whoever sorts them
/// again does so from there, and nothing is copied back.
pub(super) fn sort<const AXES: usize>(
    entries: &mut [Entry<AXES>],
    spare: &mut [Entry<AXES>],
    most: u32,
    key: impl Fn(&Entry<AXES>) -> u32,
) -> bool {
    if entries.len() < FEW {
        entries.sort_by_key(key);
        return false;
    }
    let bits = (u32::BITS - most.leading_zeros()).max(1);
    // More counters than entries cost more than another pass.
    let n_passes = bits.div_ceil(entries.len().ilog2().min(DIGIT));
    let digit = bits.div_ceil(n_passes);
    let (mut from, mut to) = (entries, spare);
    let mut counters = vec![0; 1 << digit];
    for pass in 0..n_passes {
        counters.fill(0);
        scatter(from, to, &mut counters, |entry| ((key(entry) >> (pass * digit)) & ((1 << digit) - 1)) as usize);
        (from, to) = (to, from);
    }
    n_passes % 2 == 1
}

/// Copies the entries in the order of a digit, with a counter for each of its values, which are 0.
fn scatter<const AXES: usize>(
    from: &[Entry<AXES>],
    to: &mut [Entry<AXES>],
    next: &mut [u32],
    digit: impl Fn(&Entry<AXES>) -> usize,
) {
    for entry in from {
        next[digit(entry)] += 1;
    }
    let mut start = 0;
    for count in &mut *next {
        (*count, start) = (start, start + *count);
    }
    for entry in from {
        let place = &mut next[digit(entry)];
        to[*place as usize] = *entry;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sorting_is_stable(lengths in prop::collection::vec(prop_oneof![0u32..6, any::<u32>(), 0u32..5000], 0..700)) {
            let mut entries: Vec<_> = (0..).zip(&lengths).map(|(id, l)| Entry { lengths: [7, *l], id }).collect();
            let mut expected = entries.clone();
            expected.sort_by_key(|entry| entry.lengths[1]);
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let mut spare = vec![Entry { lengths: [3, 3], id: 99 }; entries.len()];
            let is_in_spare = sort(&mut entries, &mut spare, longest, |entry| entry.lengths[1]);
            prop_assert_eq!(if is_in_spare { spare } else { entries }, expected);
        }
    }
}
