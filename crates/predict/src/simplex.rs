//! The maximum of a linear function under packing constraints.

mod constraints;
mod corner;
mod sweep;

use plimsoll_types::MAX_FEATURES;

pub(crate) use self::constraints::Constraints;
pub(crate) use self::corner::Corner;
pub(crate) use self::sweep::{Line, Sweep};

/// Features that a job can have, and one that follows from its graph.
pub(crate) const SLOTS: usize = MAX_FEATURES + 1;

/// One number per feature; what lies beyond those that a job has is 0.
pub(crate) type Vector = [f64; SLOTS];

/// Returns the scalar product.
pub(crate) fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Most rows that a program can have.
pub(crate) const MAX_ROWS: usize = 64;

/// Rows that are worked on at once.
const LANES: usize = 8;

/// What counts as zero: gains and speeds below it, and how far a corner may lie beyond a row.
///
/// All variables stay within 0 and 1, so that what is neglected is below `5e-11` of the largest term.
const EPSILON: f64 = 1e-12;

/// Pivots after which the entering edge is chosen by Bland's rule, which cannot cycle.
///
/// Of 16 000 random programs with 6 to 22 features and up to 64 rows, the slowest took 103 pivots.
const BLAND_AFTER: u32 = 128;

/// Pivots after which a bound that needs none is returned instead.
const MAX_PIVOTS: u32 = 256;

/// The most of an objective that may be left unexplained, and so be added to its maximum.
const INEXACT: f64 = 1e-10;

impl Corner {
    /// Goes to where `objective · z` is largest over `z >= 0` with `row · z <= 1` for every row, and returns its value.
    ///
    /// The objective has no coefficient below 0 or above 1.
    pub(crate) fn climb(&mut self, constraints: &Constraints, objective: &Vector) -> f64 {
        let value = |it: &Self| it.shown(objective, INEXACT, constraints);
        self.rise(constraints, objective, value).unwrap_or_else(|| constraints.without_pivots(objective))
    }

    /// Goes to where an objective is largest and the corner exact, as `read` tells that reads it there; `None` where that
    /// takes too many pivots.
    fn rise<T>(
        &mut self,
        constraints: &Constraints,
        objective: &Vector,
        read: impl Fn(&Self) -> Option<T>,
    ) -> Option<T> {
        let (begun, mut is_straight) = (self.n_pivots(), false);
        while self.n_pivots() < begun + MAX_PIVOTS {
            let by_bland = begun + BLAND_AFTER <= self.n_pivots();
            if let Some(edge) = self.rising(objective, by_bland) {
                self.go(edge, by_bland, constraints)?;
                is_straight = false;
            } else if let Some(it) = read(self) {
                return Some(it);
            } else if std::mem::replace(&mut is_straight, true) {
                return None;
            } else {
                self.straighten(constraints)?;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn maximise(objective: &[f64], rows: &[Vector]) -> f64 {
        let constraints = Constraints::new(objective.len(), rows.iter());
        Corner::new(&constraints).climb(&constraints, &wide(objective))
    }

    fn wide(row: &[f64]) -> Vector {
        std::array::from_fn(|at| row.get(at).copied().unwrap_or(0.0))
    }

    fn all_wide(rows: &[impl AsRef<[f64]>]) -> Vec<Vector> {
        rows.iter().map(|row| wide(row.as_ref())).collect()
    }

    /// Returns the last column of the eliminated system, or `None` when it has no single solution.
    fn solve(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
        let n = system.len();
        for at in 0..n {
            let best = (at..n).max_by(|a, b| system[*a][at].abs().total_cmp(&system[*b][at].abs()))?;
            system.swap(at, best);
            if system[at][at].abs() < 1e-9 {
                return None;
            }
            let line: Vec<f64> = system[at].iter().map(|cell| cell / system[at][at]).collect();
            for (other, cells) in system.iter_mut().enumerate() {
                let factor = if other == at { 0.0 } else { cells[at] };
                cells.iter_mut().zip(&line).for_each(|(cell, own)| *cell -= factor * own);
            }
            system[at] = line;
        }
        Some(system.iter().map(|line| line[n]).collect())
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// Tries every corner: as many of the planes `z_j = 0` and `row · z = 1` as there are features meet in one.
    fn best_corner(objective: &[f64], rows: &[Vector]) -> f64 {
        let n = objective.len();
        let axes = (0..n).map(|axis| (0..=n).map(|at| f64::from(u8::from(at == axis))).collect());
        let walls = rows.iter().map(|row| [&row[..n], &[1.0]].concat());
        let planes: Vec<Vec<f64>> = axes.chain(walls).collect();
        let corners = (0u32..1 << planes.len()).filter(|chosen| chosen.count_ones() as usize == n);
        corners
            .filter_map(|chosen| {
                solve((0..planes.len()).filter(|at| chosen >> at & 1 == 1).map(|at| planes[at].clone()).collect())
            })
            .filter(|z| z.iter().all(|it| *it > -1e-9) && rows.iter().all(|row| dot(row, z) < 1.0 + 1e-9))
            .map(|z| dot(objective, &z))
            .fold(0.0, f64::max)
    }

    /// As many features as three programs: few enough to try all corners.
    fn any_program(most_rows: usize) -> impl Strategy<Value = (Vec<f64>, Vec<Vector>)> {
        (1..=6usize).prop_flat_map(move |n| {
            let rows = prop::collection::vec(prop::collection::vec(0.01..1.0f64, n), 1..most_rows);
            (prop::collection::vec(0.0..1.0f64, n), rows.prop_map(|rows| all_wide(&rows)))
        })
    }

    #[test]
    fn one_row_is_solved_by_its_best_ratio() {
        let best = maximise(&[1.0, 0.5, 0.25, 0.1], &[wide(&[0.5, 0.125, 1.0, 1.0])]);
        assert!((best - 4.0).abs() < 1e-12, "{best}");
    }

    #[test]
    fn ties_in_every_row_do_not_cycle() {
        for n in [1, 6, SLOTS] {
            assert!((maximise(&vec![1.0; n], &[wide(&vec![1.0; n]); MAX_ROWS]) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn blands_rule_alone_reaches_the_same_maximum() {
        let rows = all_wide(&[[1.0, 0.2, 0.4, 0.9], [0.3, 1.0, 0.7, 0.1], [0.1, 0.5, 1.0, 1.0]]);
        let objective = [0.3, 0.9, 1.0, 0.2];
        let constraints = Constraints::new(4, rows.iter());
        let mut corner = Corner::new(&constraints);
        while let Some(edge) = corner.rising(&wide(&objective), true) {
            corner.go(edge, true, &constraints).unwrap();
        }
        assert!(
            (corner.shown(&wide(&objective), INEXACT, &constraints).unwrap() - best_corner(&objective, &rows)).abs()
                < 1e-9
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_maximum_is_the_best_corner((objective, rows) in any_program(6)) {
            let (found, best) = (maximise(&objective, &rows), best_corner(&objective, &rows));
            prop_assert!((found - best).abs() <= 1e-6 * best, "{found} is not {best}");
        }

        #[test]
        fn the_bound_without_pivots_is_never_below_the_maximum((objective, rows) in any_program(12)) {
            let constraints = Constraints::new(objective.len(), rows.iter());
            prop_assert!(constraints.without_pivots(&wide(&objective)) >= maximise(&objective, &rows) * (1.0 - 1e-12));
        }
    }
}
