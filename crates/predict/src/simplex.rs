//! The maximum of a linear function under packing constraints.

use plimsoll_types::MAX_FEATURES;

/// One number per feature; what lies beyond those that a job has is 0.
pub(crate) type Vector = [f64; MAX_FEATURES];

/// Most constraints that a program can have: the tableau then takes 13 KiB of stack.
pub(crate) const MAX_ROWS: usize = 64;

/// The features, and the right-hand side.
const WIDTH: usize = MAX_FEATURES + 1;

/// Coefficients below this count as zero.
///
/// All variables stay within 0 and 1, so that what is neglected is below `4e-12` of the largest term.
const EPSILON: f64 = 1e-12;

/// Pivots after which the entering column is chosen by Bland's rule, which cannot cycle.
///
/// Of 3685 programs in the property tests with 10 to 64 rows, half took at most 4 pivots and the slowest 28.
const BLAND_AFTER: usize = 64;

/// Pivots after which a bound that needs none is returned instead.
const MAX_PIVOTS: usize = 256;

/// Returns the maximum of `objective · z` over `z >= 0` with `row · z <= 1` for every row.
///
/// The objective and the rows are non-negative, of the objective's length, and at most [`MAX_ROWS`] rows are looked at;
/// fewer constraints make the maximum larger, never smaller.
pub(crate) fn maximise(objective: &[f64], rows: &[Vector]) -> f64 {
    let rows = &rows[..rows.len().min(MAX_ROWS)];
    let mut tableau = Tableau::new(objective, rows);
    for n_pivots in 0..MAX_PIVOTS {
        let Some(column) = tableau.entering(n_pivots >= BLAND_AFTER) else { return tableau.value() };
        let Some(row) = tableau.leaving(column) else { break };
        tableau.pivot(row, column);
    }
    without_pivots(objective, rows)
}

/// Returns the smallest of the maxima under one constraint each, which is never below the maximum under all.
fn without_pivots(objective: &[f64], rows: &[Vector]) -> f64 {
    let alone = |row: &Vector| objective.iter().zip(row).map(|(value, cost)| value / cost).fold(0.0, f64::max);
    rows.iter().map(alone).fold(f64::INFINITY, f64::min)
}

/// A condensed tableau: one column per nonbasic variable, and the objective as its last line.
struct Tableau {
    cells: [[f64; WIDTH]; MAX_ROWS + 1],
    n_rows: usize,
    n_features: usize,
    /// Variable of each column; the features come first, then one slack per row.
    nonbasic: [usize; MAX_FEATURES],
    /// Variable of each row.
    basic: [usize; MAX_ROWS],
}

impl Tableau {
    /// Starts at `z = 0`, which every constraint allows.
    fn new(objective: &[f64], rows: &[Vector]) -> Self {
        let (n_rows, n_features) = (rows.len(), objective.len());
        let mut cells = [[0.0; WIDTH]; MAX_ROWS + 1];
        for (line, row) in cells.iter_mut().zip(rows) {
            line[..n_features].copy_from_slice(&row[..n_features]);
            line[n_features] = 1.0;
        }
        cells[n_rows][..n_features].copy_from_slice(objective);
        let (nonbasic, basic) = (std::array::from_fn(|column| column), std::array::from_fn(|row| n_features + row));
        Self { cells, n_rows, n_features, nonbasic, basic }
    }

    fn value(&self) -> f64 {
        -self.cells[self.n_rows][self.n_features]
    }

    /// Returns a column that raises the objective: the steepest, or the one with the lowest variable.
    fn entering(&self, by_bland: bool) -> Option<usize> {
        let gains = &self.cells[self.n_rows];
        let rising = (0..self.n_features).filter(|column| gains[*column] > EPSILON);
        if by_bland {
            rising.min_by_key(|column| self.nonbasic[*column])
        } else {
            rising.max_by(|a, b| gains[*a].total_cmp(&gains[*b]))
        }
    }

    /// Returns the row that stops the column first; among equals, the one with the lowest variable.
    fn leaving(&self, column: usize) -> Option<usize> {
        let mut first: Option<(f64, usize)> = None;
        for (row, line) in self.cells[..self.n_rows].iter().enumerate() {
            if line[column] <= EPSILON {
                continue;
            }
            let step = line[self.n_features] / line[column];
            let is_first = first.is_none_or(|(shortest, best)| {
                step.total_cmp(&shortest).then(self.basic[row].cmp(&self.basic[best])).is_lt()
            });
            if is_first {
                first = Some((step, row));
            }
        }
        first.map(|(_, row)| row)
    }

    /// Exchanges the variables of a row and a column.
    fn pivot(&mut self, row: usize, column: usize) {
        let (pivot, width) = (self.cells[row][column], self.n_features + 1);
        let mut pivot_line = self.cells[row];
        pivot_line[..width].iter_mut().for_each(|cell| *cell /= pivot);
        pivot_line[column] = 1.0 / pivot;
        for line in &mut self.cells[..=self.n_rows] {
            let factor = std::mem::take(&mut line[column]);
            for (cell, pivot_cell) in line[..width].iter_mut().zip(&pivot_line) {
                *cell -= factor * pivot_cell;
            }
        }
        self.cells[row] = pivot_line;
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[column]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        for n in [1, 6, MAX_FEATURES] {
            assert!((maximise(&vec![1.0; n], &[wide(&vec![1.0; n]); MAX_ROWS]) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn blands_rule_alone_reaches_the_same_maximum() {
        let rows = all_wide(&[[1.0, 0.2, 0.4, 0.9], [0.3, 1.0, 0.7, 0.1], [0.1, 0.5, 1.0, 1.0]]);
        let objective = [0.3, 0.9, 1.0, 0.2];
        let mut tableau = Tableau::new(&objective, &rows);
        while let Some(column) = tableau.entering(true) {
            let row = tableau.leaving(column).unwrap();
            tableau.pivot(row, column);
        }
        assert!((tableau.value() - best_corner(&objective, &rows)).abs() < 1e-9);
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
            prop_assert!(without_pivots(&objective, &rows) >= maximise(&objective, &rows) * (1.0 - 1e-12));
        }
    }
}
