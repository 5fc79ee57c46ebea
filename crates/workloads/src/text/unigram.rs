//! The trivial baseline: a model that knows how frequent each token is, and nothing else.

/// Returns the mean cross entropy in nats of `held_out` under the frequencies of `training`, plus one of each token.
///
/// It is undefined (not a number) without a token to predict.
pub(crate) fn unigram_cross_entropy(
    training: impl Iterator<Item = u16>,
    held_out: impl Iterator<Item = u16>,
    vocabulary: usize,
) -> f64 {
    let mut counts = vec![1_u64; vocabulary];
    training.for_each(|token| counts[usize::from(token)] += 1);
    let total = counts.iter().sum::<u64>() as f64;
    let nats = |token: u16| -(counts[usize::from(token)] as f64 / total).ln();
    let (sum, n) = held_out.fold((0.0, 0_u64), |(sum, n), token| (sum + nats(token), n + 1));
    sum / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_hand_computes() {
        // Of 5 + 3 counts, 4 are of token 0, 3 of token 1 and 1 of token 2, which is only smoothed.
        let found = unigram_cross_entropy([0, 1, 0, 1, 0].into_iter(), [0, 2].into_iter(), 3);
        let expected = f64::midpoint(2_f64.ln(), 8_f64.ln());
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}
