//! The maximum of an objective that grows with the number of samples.

use super::{Constraints, Corner, EPSILON, INEXACT, Vector};

/// A linear function of the number of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) base: f64,
    pub(crate) slope: f64,
}

/// The maximum of `(base + n · slope) · z` for every number of samples `n` from 1: few lines, one after the other.
///
/// The constraints stay as they are while the objective turns, so that one walk from corner to corner meets all maxima;
/// a corner that is best for no whole `n` is passed by.
/// It goes as far as was asked, always by the same way.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    base: Vector,
    slope: Vector,
    most_base: f64,
    most_slope: f64,
    corner: Corner,
    /// Each with the number of samples from which on it counts.
    lines: Vec<(u32, Line)>,
    /// Up to how many samples the lines are known.
    until: u32,
    /// Whether it takes too many pivots to go on.
    is_stuck: bool,
}

impl Line {
    pub(crate) fn at(self, samples: u32) -> f64 {
        self.base + self.slope * f64::from(samples)
    }
}

impl Sweep {
    /// Starts from any corner; neither vector is negative anywhere.
    pub(crate) fn new(corner: Corner, base: Vector, slope: Vector) -> Self {
        let [most_base, most_slope] = [&base, &slope].map(|it| it.iter().copied().fold(0.0, f64::max));
        Self { base, slope, most_base, most_slope, corner, lines: Vec::new(), until: 0, is_stuck: false }
    }

    /// Returns the line of so many samples, at least one, or `None` where finding it takes too many pivots.
    pub(crate) fn line(&mut self, samples: u32, constraints: &Constraints) -> Option<Line> {
        while self.until < samples {
            if self.is_stuck {
                return None;
            }
            self.is_stuck = self.go_on(constraints).is_none();
        }
        let n_lines = self.lines.partition_point(|it| it.0 <= samples);
        n_lines.checked_sub(1).map(|at| self.lines[at].1)
    }

    /// Returns how many pivots were made, those before it began among them.
    #[cfg(test)]
    pub(crate) fn n_pivots(&self) -> u32 {
        self.corner.n_pivots()
    }

    /// Finds the next line.
    fn go_on(&mut self, constraints: &Constraints) -> Option<()> {
        let from = self.until + 1;
        let (samples, [base, slope]) = (f64::from(from), [&self.base, &self.slope]);
        let all = self.most_base + samples * self.most_slope;
        let objective = std::array::from_fn(|feature| (base[feature] + samples * slope[feature]) / all);
        // Each is exact alone, so that the line is for more samples as well.
        let (in_base, in_slope) = (INEXACT * self.most_base, INEXACT * self.most_slope);
        let line = |it: &Corner| {
            let (base, slope) = (it.shown(base, in_base, constraints)?, it.shown(slope, in_slope, constraints)?);
            Some(Line { base, slope })
        };
        let line = self.corner.rise(constraints, &objective, line)?;
        self.lines.push((from, line));
        let turns = (0..constraints.n_features()).map(|edge| self.turn(edge));
        self.until = whole_below(turns.fold(f64::INFINITY, f64::min)).max(from);
        Some(())
    }

    /// Returns from how many samples on an edge rises by more than what counts as zero.
    fn turn(&self, edge: usize) -> f64 {
        let rise = self.corner.gain(&self.slope, edge) - EPSILON * self.most_slope;
        if rise > 0.0 { (EPSILON * self.most_base - self.corner.gain(&self.base, edge)) / rise } else { f64::INFINITY }
    }
}

/// Returns the largest whole number up to this one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float-to-integer cast saturates")]
fn whole_below(number: f64) -> u32 {
    number as u32
}
