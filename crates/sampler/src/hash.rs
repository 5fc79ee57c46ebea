//! The one source of randomness: a hash of numbers that the caller gives.

/// The odd number nearest to 2^64 divided by the golden ratio, `SplitMix64`'s increment.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a hash is for: two uses of the same numbers must not see the same bits.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Shuffle = 1,
    // 2 and 3 are those of crops, in plimsoll-workloads.
    Window = 4,
    Batches = 5,
    Reference = 6,
    Weights = 7,
    Rows = 8,
    Stream = 9,
    Sources = 10,
}

/// Returns 64 well-mixed bits that depend on every argument.
pub(crate) fn hash(purpose: Use, seed: u64, epoch: u64, index: u64) -> u64 {
    [seed, epoch, index].into_iter().fold(purpose as u64, |state, word| mix(state ^ word))
}

/// Mixes 64 bits, one to one; a change of one bit flips each bit of the result with a probability near one half.
///
/// # Sources
///
/// `SplitMix64`'s step and finaliser: Steele, Lea and Flood, OOPSLA 2014, with the constants of Stafford's "Mix13".
pub(crate) fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns 64 bits that two different slices hardly ever share: a few operations for each word, in four lanes.
pub(crate) fn digest<T: Copy + Into<u64>>(words: &[T]) -> u64 {
    let mut lanes = [1, 2, 3, 4];
    let blocks = words.chunks_exact(lanes.len());
    let rest = blocks.remainder();
    let enter = |lane: &mut u64, word: &T| *lane = (*lane ^ (*word).into()).wrapping_mul(GAMMA).rotate_left(23);
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block) {
            enter(lane, word);
        }
    }
    for (lane, word) in lanes.iter_mut().zip(rest) {
        enter(lane, word);
    }
    lanes.into_iter().fold(words.len() as u64, |state, lane| mix(state ^ lane))
}

/// Random numbers from a hash of what they are for.
pub(crate) struct Rng(u64);

impl Rng {
    /// Starts a sequence of its own for these numbers.
    pub(crate) fn new(purpose: Use, seed: u64, epoch: u64, index: u64) -> Self {
        Self(hash(purpose, seed, epoch, index))
    }

    /// Draws a number below `n`, each equally likely to within 2^-32 · `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(GAMMA);
        (((mix(self.0) >> 32) * n as u64) >> 32) as usize
    }

    /// Puts the items in a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixing_function_is_the_published_one() {
        // The first outputs of the reference implementation of SplitMix64 with state 0 and state 1234567.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn a_digest_tells_words_lengths_and_places_apart() {
        let mut words: Vec<u32> = (0..1000).collect();
        let mut seen = vec![digest(&words), digest(&words[1..]), digest(&words[..999]), digest::<u32>(&[])];
        for place in [0, 1, 499, 997, 999] {
            words[place] += 1;
            seen.push(digest(&words));
        }
        words.swap(500, 504);
        seen.push(digest(&words));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10);
    }
}
