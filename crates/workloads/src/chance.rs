//! Random bits that depend on nothing but numbers.

/// Returns 64 well-mixed bits that depend on every word, from a state that says what they are for.
///
/// # Sources
///
/// `SplitMix64`'s step and finaliser (Steele, Lea and Flood, OOPSLA 2014), with the constants of Stafford's "Mix13".
pub(crate) fn hash(purpose: u64, words: [u64; 3]) -> u64 {
    words.into_iter().fold(purpose, |state, word| {
        let z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_and_the_purpose_count() {
        let of = [[1, 2, 3], [2, 2, 3], [1, 3, 3], [1, 2, 4]].map(|words| hash(0, words));
        assert!(of[1..].iter().all(|it| *it != of[0]) && hash(1, [1, 2, 3]) != of[0]);
    }
}
