//! Tails of the binomial distribution.

/// Relative size of a term that ends the sum: what is left out is far below the precision of the first term.
const NEGLIGIBLE: f64 = 1e-18;

/// Factorials up to this one are multiplied; above, Stirling's series errs by less than `1e-14`.
const MULTIPLIED: u64 = 32;

/// Returns the chance of at most `k` hits in `n` trials of probability `p`, for `k <= n` and `p` of at least `k / n`.
///
/// The terms are summed from the largest, which is that of `k`.
pub(crate) fn chance_of_at_most(k: u64, n: u64, p: f64) -> f64 {
    if p >= 1.0 {
        return if k == n { 1.0 } else { 0.0 };
    }
    let largest = ln_choose(n, k) + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p();
    let (mut term, mut sum) = (1.0, 0.0);
    for hits in (0..=k).rev() {
        sum += term;
        term *= hits as f64 * (1.0 - p) / ((n - hits + 1) as f64 * p);
        if term < NEGLIGIBLE {
            break;
        }
    }
    largest.exp() * sum
}

fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

fn ln_factorial(n: u64) -> f64 {
    if n <= MULTIPLIED {
        return (1..=n).map(|it| it as f64).product::<f64>().ln();
    }
    let n = n as f64;
    let correction = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    (n + 0.5) * n.ln() - n + 0.5 * std::f64::consts::TAU.ln() + correction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_meets_the_product() {
        let mut product = 0.0;
        for n in 1..=200_u64 {
            product += (n as f64).ln();
            assert!((ln_factorial(n) - product).abs() < 1e-11, "{n}! differs by {}", ln_factorial(n) - product);
        }
    }

    #[test]
    fn a_fair_coin_has_the_tails_of_pascals_triangle() {
        for (k, chance) in [(0, 1.0), (1, 11.0), (2, 56.0), (3, 176.0), (4, 386.0), (5, 638.0)] {
            let found = chance_of_at_most(k, 10, 0.5);
            assert!((found - chance / 1024.0).abs() < 1e-14, "{k}: {found}");
        }
        assert_eq!((chance_of_at_most(3, 10, 1.0), chance_of_at_most(10, 10, 1.0)), (0.0, 1.0));
    }
}
