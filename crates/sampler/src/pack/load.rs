//! What packed rows cost.

use std::ops::Add;

/// What some rows ask of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackLoad {
    /// Number of rows.
    pub rows: u32,
    /// Positions of the block, with those that are empty.
    pub block: u64,
    /// The sum of the lengths of the pieces: what every layer but attention works on.
    pub positions: u64,
    /// The sum of the squares of the lengths of the pieces: what block-diagonal attention works on.
    pub squares: u64,
}

impl PackLoad {
    /// A cost that grows with the lengths and with their squares, in the unit of the two prices.
    pub fn cost(&self, per_position: f64, per_square: f64) -> f64 {
        self.positions as f64 * per_position + self.squares as f64 * per_square
    }
}

impl Add for PackLoad {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            rows: self.rows + more.rows,
            block: self.block + more.block,
            positions: self.positions + more.positions,
            squares: self.squares + more.squares,
        }
    }
}

/// Says which rows go through the model together.
///
/// A certificate is such a rule, and so is any function of the load:
///
/// ```
/// use plimsoll_sampler::{PackLoad, PackRule};
///
/// // A millionth of the budget for each position, and as much for every 512 pairs of positions in one piece.
/// let rule = |load: PackLoad| load.cost(1e-6, 1e-6 / 512.0) <= 1.0;
/// assert!(rule.fits(PackLoad { rows: 4, block: 32_768, positions: 32_700, squares: 10_000_000 }));
/// ```
///
/// A rule that allows some rows must allow fewer of them.
pub trait PackRule {
    /// Whether rows of this load fit.
    fn fits(&self, load: PackLoad) -> bool;
}

impl<F: Fn(PackLoad) -> bool> PackRule for F {
    fn fits(&self, load: PackLoad) -> bool {
        self(load)
    }
}

/// At most so many rows, and so many squares in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackBudget {
    /// The most rows.
    pub rows: u32,
    /// The most that the squares of all pieces may sum to; `u64::MAX` is no limit.
    pub squares: u64,
}

impl PackRule for PackBudget {
    fn fits(&self, load: PackLoad) -> bool {
        load.rows <= self.rows && load.squares <= self.squares
    }
}
