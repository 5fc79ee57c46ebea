//! The eight symmetries of a square.

/// One of the eight ways to lay a square down: flips, quarter turns, and both.
///
/// The oriented square shows at `(x, y)` what [`Orientation::source`] points at: the axes are swapped first, then
/// mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orientation {
    /// Whether rows become columns.
    pub transpose: bool,
    /// Whether the source is read from right to left.
    pub flip_x: bool,
    /// Whether the source is read from bottom to top.
    pub flip_y: bool,
}

impl Orientation {
    /// As it was.
    pub const IDENTITY: Self = Self::from_bits(0);

    /// Every orientation, the identity first.
    pub const ALL: [Self; 8] = [
        Self::IDENTITY,
        Self::from_bits(1),
        Self::from_bits(2),
        Self::from_bits(3),
        Self::from_bits(4),
        Self::from_bits(5),
        Self::from_bits(6),
        Self::from_bits(7),
    ];

    /// Reads an orientation from the three lowest bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self { transpose: bits & 4 != 0, flip_x: bits & 1 != 0, flip_y: bits & 2 != 0 }
    }

    /// Returns the pixel `(x, y)` of the source that the oriented square shows at `(x, y)`.
    ///
    /// `edge` is the side of the square in pixels, and both coordinates are below it.
    pub const fn source(self, x: usize, y: usize, edge: usize) -> (usize, usize) {
        let (x, y) = if self.transpose { (y, x) } else { (x, y) };
        (if self.flip_x { edge - 1 - x } else { x }, if self.flip_y { edge - 1 - y } else { y })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_eight_differ_and_one_is_a_quarter_turn() {
        let mut corners: Vec<_> = Orientation::ALL.map(|it| (it.source(0, 0, 3), it.source(2, 0, 3))).into();
        // A quarter turn clockwise brings the bottom left corner to the top left and the top left to the top right.
        assert!(corners.contains(&((0, 2), (0, 0))));
        corners.sort_unstable();
        corners.dedup();
        assert_eq!(corners.len(), 8);
        assert_eq!(Orientation::IDENTITY.source(1, 2, 3), (1, 2));
    }
}
