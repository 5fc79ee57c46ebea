//! Choosing a token by what the model gives it.

use crate::chance::hash;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What the logits are divided by, from 0: the most probable token always; 1: as the model says.
    pub temperature: f64,
    /// Only so many of the most probable tokens are considered; 0 for all.
    pub top_k: usize,
    /// Seed of the choices.
    pub seed: u64,
}

impl Sampling {
    /// Chooses the `n`-th token of a text; the same choice for the same logits, text and seed.
    pub(crate) fn pick(&self, logits: &[f32], text: u64, n: u64) -> u16 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // The sort is stable, so that the first of equals wins.
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        if 0 < self.top_k {
            order.truncate(self.top_k);
        }
        let Some(first) = order.first().copied() else { return super::BOUNDARY };
        let most = logits[first];
        let weight = |at: &usize| (f64::from(logits[*at] - most) / self.temperature).exp();
        let total: f64 = order.iter().map(weight).sum();
        let mut left = unit(self.seed, text, n) * total;
        let chosen = order.iter().find(|at| {
            left -= weight(at);
            left < 0.0
        });
        u16::try_from(chosen.copied().filter(|_| 0.0 < self.temperature).unwrap_or(first)).unwrap_or(super::BOUNDARY)
    }
}

/// Returns a number from 0 to 1, 1 excluded, that is a hash of the arguments.
fn unit(seed: u64, text: u64, n: u64) -> f64 {
    (hash(0, [seed, text, n]) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, 2.0];

    fn shares(temperature: f64, top_k: usize) -> [f64; 4] {
        let sampling = Sampling { temperature, top_k, seed: 3 };
        let mut shares = [0.0; 4];
        (0..20_000).for_each(|n| shares[usize::from(sampling.pick(&LOGITS, 7, n))] += 1.0 / 20_000.0);
        shares
    }

    #[test]
    fn without_temperature_the_first_of_the_best_is_chosen() {
        assert!(shares(0.0, 0)[1] > 0.9999);
    }

    #[test]
    fn tokens_are_chosen_as_often_as_the_model_says() {
        let total = 1.0 + 2.0 * 2_f64.exp() + 1_f64.exp();
        let expected = LOGITS.map(|it| f64::from(it).exp() / total);
        for (found, expected) in shares(1.0, 0).into_iter().zip(expected) {
            // Four standard deviations of the share of 20 000 choices.
            assert!((found - expected).abs() < 4.0 * (expected / 20_000.0).sqrt(), "{found} {expected}");
        }
        let [none, first, also_none, second] = shares(1.0, 2);
        assert!(none + also_none == 0.0 && (first - second).abs() < 0.03);
    }

    #[test]
    fn each_text_and_each_place_has_choices_of_its_own() {
        let sampling = Sampling { temperature: 1.0, top_k: 0, seed: 3 };
        let choices = |text| (0..64).map(|n| sampling.pick(&[0.0; 8], text, n)).collect::<Vec<_>>();
        assert_eq!(choices(1), choices(1));
        assert_ne!(choices(1), choices(2));
    }
}
