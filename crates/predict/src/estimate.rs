//! The best single guess of a step's need.

use plimsoll_types::N_FEATURES;

use crate::certificate::Certificate;

/// Pull towards zero, in units of one observation.
///
/// Columns are scaled to at most 1, so that this changes a well-determined coefficient by a millionth; it only decides
/// between coefficients that the observations cannot tell apart, and then in favour of equal shares.
const RIDGE: f64 = 1e-6;

type Vector = [f64; N_FEATURES];
type Matrix = [Vector; N_FEATURES];

/// Returns the coefficients, in bytes per feature, that explain the needs best and are not negative.
///
/// Errors are weighed relative to each need, so that a small step counts as much as a large one.
///
/// # Sources
///
/// Lawson and Hanson, *Solving Least Squares Problems* (1974), problem NNLS; with four coefficients all 15 supports are
/// tried instead of searched.
pub(crate) fn fit(certificate: &Certificate) -> Vector {
    let (rows, scales) = certificate.scaled();
    let (gram, sums) = normal_equations(&rows);
    let on_supports = (1_u32..1 << N_FEATURES).map(|support| solve(restricted(&gram, &sums, support)));
    let allowed = on_supports.filter(|z| z.iter().all(|it| *it >= 0.0));
    // At a stationary point the squared error falls short of that at zero by exactly this product.
    let best = allowed.max_by(|a, b| dot(&sums, a).total_cmp(&dot(&sums, b))).unwrap_or_default();
    std::array::from_fn(|feature| best[feature] * scales[feature])
}

/// Returns the matrix and the right-hand side of `row · z = 1` for all rows, in the sense of least squares.
fn normal_equations(rows: &[Vector]) -> (Matrix, Vector) {
    let sum_of = |term: &dyn Fn(&Vector) -> f64| rows.iter().map(term).sum::<f64>();
    let gram = std::array::from_fn(|i| {
        std::array::from_fn(|j| sum_of(&|row| row[i] * row[j]) + if i == j { RIDGE } else { 0.0 })
    });
    (gram, std::array::from_fn(|i| sum_of(&|row| row[i])))
}

/// Returns the system whose solution is zero outside of the support, a bit per feature.
fn restricted(gram: &Matrix, sums: &Vector, support: u32) -> (Matrix, Vector) {
    let has = |feature: usize| support >> feature & 1 == 1;
    let identity = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
    let matrix =
        std::array::from_fn(|i| std::array::from_fn(|j| if has(i) && has(j) { gram[i][j] } else { identity(i, j) }));
    (matrix, std::array::from_fn(|i| if has(i) { sums[i] } else { 0.0 }))
}

/// Solves a positive definite system, which needs no exchange of rows.
fn solve((mut matrix, mut sums): (Matrix, Vector)) -> Vector {
    for at in 0..N_FEATURES {
        let (line, sum) = (matrix[at].map(|cell| cell / matrix[at][at]), sums[at] / matrix[at][at]);
        for i in 0..N_FEATURES {
            let factor = matrix[i][at];
            matrix[i].iter_mut().zip(line).for_each(|(cell, own)| *cell -= factor * own);
            sums[i] -= factor * sum;
        }
        (matrix[at], sums[at]) = (line, sum);
    }
    sums
}

/// Returns the scalar product.
pub(crate) fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Bytes, StepShape};
    use proptest::prelude::*;

    use super::*;
    use crate::ShapeNeed;

    const SHAPES: [(u32, u32); 7] = [(1, 16), (2, 16), (8, 16), (1, 64), (4, 64), (2, 256), (16, 32)];

    fn fitted(need_of: impl Fn(Vector) -> f64) -> Vector {
        let mut certificate = Certificate::default();
        for (samples, edge) in SHAPES {
            let shape = StepShape::new(samples, edge);
            certificate.observe(ShapeNeed { shape, need: Bytes::from_f64_ceil(need_of(shape.features())) }).unwrap();
        }
        fit(&certificate)
    }

    #[test]
    fn a_coefficient_that_would_be_negative_is_zero() {
        // Concave in the edge, which only a negative last coefficient fits exactly.
        let theta = fitted(|phi| 1e6 + 1e5 * phi[1] * (phi[2] / phi[1]).sqrt());
        assert!(theta.iter().all(|it| *it >= 0.0) && theta[3] == 0.0, "{theta:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_linear_program_is_recovered(truth in prop::array::uniform4(1e3..1e6)) {
            let theta = fitted(|phi| dot(&truth, &phi));
            for (samples, edge) in SHAPES {
                let phi = StepShape::new(samples, edge).features();
                prop_assert!((dot(&theta, &phi) / dot(&truth, &phi) - 1.0).abs() < 1e-3, "{theta:?} for {truth:?}");
            }
        }

        #[test]
        fn no_small_step_away_fits_better(needs in prop::array::uniform7(1e6..1e9), at in 0..N_FEATURES, up in any::<bool>()) {
            let mut certificate = Certificate::default();
            for ((samples, edge), need) in SHAPES.into_iter().zip(needs) {
                let need = Bytes::from_f64_ceil(need);
                certificate.observe(ShapeNeed { shape: StepShape::new(samples, edge), need }).unwrap();
            }
            let (rows, scales) = certificate.scaled();
            let theta = fit(&certificate);
            let z: Vector = std::array::from_fn(|j| theta[j] / scales[j]);
            let loss = |z: &Vector| {
                rows.iter().map(|row| (dot(row, z) - 1.0).powi(2)).sum::<f64>() + RIDGE * dot(z, z)
            };
            let mut moved = z;
            moved[at] = (z[at] + if up { 1e-3 } else { -1e-3 }).max(0.0);
            prop_assert!(loss(&z) <= loss(&moved) + 1e-12);
        }
    }
}
