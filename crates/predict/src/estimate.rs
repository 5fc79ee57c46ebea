//! The best single guess of a step's need.

use crate::certificate::Certificate;
use crate::simplex::{SLOTS, Vector, dot};

/// Pull towards zero, in units of one observation.
///
/// Columns are scaled to at most 1, so that this changes a well-determined coefficient by a millionth; it only decides
/// between coefficients that the observations cannot tell apart, and then in favour of equal shares.
const RIDGE: f64 = 1e-6;

/// Slopes of the squared error below this count as none: coefficients are within 0 and 1, and there are at most 64
/// observations.
const EPSILON: f64 = 1e-10;

type Matrix = [Vector; SLOTS];

/// Returns the coefficients, in bytes per feature, that explain the needs best and are not negative.
///
/// Errors are weighed relative to each need, so that a small step counts as much as a large one.
///
/// # Sources
///
/// Lawson and Hanson, *Solving Least Squares Problems* (1974), algorithm NNLS; on the normal equations, as in Bro and
/// de Jong, *A fast non-negativity-constrained least squares algorithm* (1997).
pub(crate) fn fit(certificate: &Certificate) -> Vector {
    let (rows, scales) = certificate.scaled();
    let z = Problem::new(rows, certificate.n_slots()).solve();
    std::array::from_fn(|feature| z[feature] * scales[feature])
}

/// The normal equations of `row · z = 1` for all rows, to be solved with `z >= 0`.
struct Problem {
    n: usize,
    gram: Matrix,
    sums: Vector,
}

/// Features that are not zero, in the order in which they came in.
#[derive(Default)]
struct Support {
    features: [usize; SLOTS],
    len: usize,
}

impl Problem {
    fn new(rows: &[Vector], n: usize) -> Self {
        let mut it = Self { n, gram: [Vector::default(); SLOTS], sums: Vector::default() };
        for row in rows {
            for i in 0..n {
                it.sums[i] += row[i];
                (0..n).for_each(|j| it.gram[i][j] += row[i] * row[j]);
            }
        }
        (0..n).for_each(|i| it.gram[i][i] += RIDGE);
        it
    }

    /// Lets in the feature that lowers the error most, and lets out what it makes negative, until none helps.
    fn solve(&self) -> Vector {
        let (mut z, mut support) = (Vector::default(), Support::default());
        // Each round lowers the error, so that no support comes twice; rounding is what the limit is for.
        for _ in 0..3 * self.n {
            let Some(entering) = self.steepest(&z, &support) else { break };
            support.push(entering);
            self.descend(&mut z, &mut support);
        }
        z
    }

    /// Returns the feature outside of the support along which the error falls fastest, if it falls at all.
    fn steepest(&self, z: &Vector, support: &Support) -> Option<usize> {
        let slope = |feature: usize| self.sums[feature] - dot(&self.gram[feature], z);
        let outside = (0..self.n).filter(|it| !support.as_slice().contains(it)).map(|it| (slope(it), it));
        outside.filter(|it| it.0 > EPSILON).max_by(|a, b| a.0.total_cmp(&b.0)).map(|it| it.1)
    }

    /// Goes to the least error on the support, as far as nothing becomes negative; what becomes zero leaves.
    fn descend(&self, z: &mut Vector, support: &mut Support) {
        while support.len > 0 {
            let goal = self.solve_on(support.as_slice());
            let stops =
                support.as_slice().iter().filter(|it| goal[**it] <= 0.0).map(|it| z[*it] / (z[*it] - goal[*it]));
            let share = stops.fold(1.0, f64::min).max(0.0);
            (0..self.n).for_each(|it| z[it] += share * (goal[it] - z[it]));
            if share >= 1.0 && support.as_slice().iter().all(|it| goal[*it] > 0.0) {
                return;
            }
            support.retain(|feature| goal[feature] > 0.0 || z[feature] > EPSILON);
            (0..self.n).filter(|it| !support.as_slice().contains(it)).for_each(|it| z[it] = 0.0);
        }
    }

    /// Solves the equations of the support, which are positive definite, so that no rows need to be exchanged.
    fn solve_on(&self, support: &[usize]) -> Vector {
        let mut system = [[0.0; SLOTS + 1]; SLOTS];
        let n = support.len();
        for (line, i) in system.iter_mut().zip(support) {
            line.iter_mut().zip(support).for_each(|(cell, j)| *cell = self.gram[*i][*j]);
            line[n] = self.sums[*i];
        }
        for at in 0..n {
            let mut line = system[at];
            line[at..=n].iter_mut().for_each(|cell| *cell /= system[at][at]);
            for (_, other) in system[..n].iter_mut().enumerate().filter(|(i, _)| *i != at) {
                let factor = other[at];
                other[at..=n].iter_mut().zip(&line[at..=n]).for_each(|(cell, own)| *cell -= factor * own);
            }
            system[at] = line;
        }
        let mut z = Vector::default();
        support.iter().zip(&system).for_each(|(feature, line)| z[*feature] = line[n]);
        z
    }
}

impl Support {
    fn as_slice(&self) -> &[usize] {
        &self.features[..self.len]
    }

    fn push(&mut self, feature: usize) {
        self.features[self.len] = feature;
        self.len += 1;
    }

    fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let (all, n) = (self.features, self.len);
        self.len = 0;
        all[..n].iter().filter(|it| keep(**it)).for_each(|it| self.push(*it));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_types::{Bytes, Features, StepShape};
    use proptest::prelude::*;

    use super::*;
    use crate::certificate::ShapeNeed;

    const SHAPES: [(u32, u32); 9] =
        [(1, 16), (2, 16), (8, 16), (1, 64), (4, 64), (2, 256), (16, 32), (1, 256), (8, 128)];

    fn phi(samples: u32, edge: u32) -> Vector {
        let values = Features::default().of(StepShape::new(samples, edge));
        std::array::from_fn(|feature| values.get(feature).copied().unwrap_or(0.0))
    }

    fn fitted(need_of: impl Fn(Vector) -> f64) -> Vector {
        let mut certificate = Certificate::default();
        for (samples, edge) in SHAPES {
            let need = Bytes::from_f64_ceil(need_of(phi(samples, edge)));
            certificate.observe(ShapeNeed { shape: StepShape::new(samples, edge), need }).unwrap();
        }
        fit(&certificate)
    }

    #[test]
    fn a_coefficient_that_would_be_negative_is_zero() {
        // Concave in the edge, which only a negative last coefficient fits exactly.
        let theta = fitted(|phi| 1e6 + 1e5 * phi[3] * phi[1].sqrt());
        assert!(theta.iter().all(|it| *it >= 0.0) && theta[5] == 0.0, "{theta:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_linear_program_is_recovered(truth in prop::array::uniform6(1e3..1e6)) {
            let of_truth = |phi: &Vector| truth.iter().zip(phi).map(|(a, b)| a * b).sum::<f64>();
            let theta = fitted(|phi| of_truth(&phi));
            for (samples, edge) in SHAPES {
                let phi = phi(samples, edge);
                prop_assert!((dot(&theta, &phi) / of_truth(&phi) - 1.0).abs() < 1e-3, "{theta:?} for {truth:?}");
            }
        }

        #[test]
        fn no_small_step_away_fits_better(needs in prop::array::uniform9(1e6..1e9), at in 0..6usize, up in any::<bool>()) {
            let mut certificate = Certificate::default();
            for ((samples, edge), need) in SHAPES.into_iter().zip(needs) {
                let need = Bytes::from_f64_ceil(need);
                certificate.observe(ShapeNeed { shape: StepShape::new(samples, edge), need }).unwrap();
            }
            let (rows, scales) = certificate.scaled();
            let theta = fit(&certificate);
            let z: Vector = std::array::from_fn(|j| if j < 6 { theta[j] / scales[j] } else { 0.0 });
            let loss = |z: &Vector| {
                rows.iter().map(|row| (dot(row, z) - 1.0).powi(2)).sum::<f64>() + RIDGE * dot(z, z)
            };
            let mut moved = z;
            moved[at] = (z[at] + if up { 1e-3 } else { -1e-3 }).max(0.0);
            prop_assert!(loss(&z) <= loss(&moved) + 1e-12);
        }
    }
}
