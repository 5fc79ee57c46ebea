//! What a program may be, by rows that are worked on together.

use super::{LANES, MAX_ROWS, Vector};

/// Rows `row · z <= 1` with entries within 0 and 1, beside `z >= 0`; at most [`MAX_ROWS`], since fewer make a maximum
/// larger, never smaller.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Constraints {
    /// For each feature, its entries in all rows.
    columns: Vec<[f64; MAX_ROWS]>,
    n_rows: usize,
}

impl Constraints {
    pub(crate) fn new<'a>(n_features: usize, rows: impl Iterator<Item = &'a Vector>) -> Self {
        let (mut columns, mut n_rows) = (vec![[0.0; MAX_ROWS]; n_features], 0);
        for row in rows.take(MAX_ROWS) {
            columns.iter_mut().zip(row).for_each(|(column, cell)| column[n_rows] = *cell);
            n_rows += 1;
        }
        Self { columns, n_rows }
    }

    pub(super) fn n_features(&self) -> usize {
        self.columns.len()
    }

    /// Returns how many rows there are with those that fill up the last lanes, which are all zero.
    pub(super) fn n_padded(&self) -> usize {
        self.n_rows.next_multiple_of(LANES)
    }

    pub(super) fn columns(&self) -> &[[f64; MAX_ROWS]] {
        &self.columns
    }

    /// Returns how fast a direction comes near a constraint: that a feature is not below zero, or else a row, counted
    /// after the features.
    pub(super) fn speed(&self, constraint: usize, along: &Vector) -> f64 {
        match constraint.checked_sub(self.columns.len()) {
            Some(row) => self.columns.iter().zip(along).map(|(column, along)| column[row] * along).sum(),
            None => -along[constraint],
        }
    }

    /// Adds the direction that a constraint stops, so many times.
    pub(super) fn add(&self, constraint: usize, times: f64, to: &mut Vector) {
        match constraint.checked_sub(self.columns.len()) {
            Some(row) => to.iter_mut().zip(&self.columns).for_each(|(cell, column)| *cell += times * column[row]),
            None => to[constraint] -= times,
        }
    }

    /// Returns the smallest of the maxima under one row each, which is never below the maximum under all.
    pub(super) fn without_pivots(&self, objective: &Vector) -> f64 {
        let alone = |row: usize| {
            let ratios = objective.iter().zip(&self.columns).map(|(value, column)| value / column[row]);
            ratios.fold(0.0, f64::max)
        };
        (0..self.n_rows).map(alone).fold(f64::INFINITY, f64::min)
    }
}
