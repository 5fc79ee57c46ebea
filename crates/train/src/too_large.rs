//! Samples that are left out because they are too large for the memory.

use std::fmt;

use plimsoll_types::{Cells, Extent};

/// Which samples are too large: those that are padded to one of some extents, or to more along each axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TooLarge {
    extents: Vec<Extent>,
    cells: Cells,
}

impl TooLarge {
    /// Samples that are padded to these cells are too large from each of these extents on.
    pub(crate) fn from(extents: Vec<Extent>, cells: &Cells) -> Self {
        Self { cells: if extents.is_empty() { Cells::default() } else { cells.clone() }, extents }
    }

    /// Whether none is.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Whether a sample of these lengths is.
    pub(crate) fn has(&self, extent: Extent) -> bool {
        self.has_cell(self.cells.padded(extent))
    }

    /// Whether what is padded to this is.
    pub(crate) fn has_cell(&self, cell: Extent) -> bool {
        cell.covers_any(&self.extents)
    }

    /// Whether all of these samples are so by themselves too.
    pub(crate) fn is_within(&self, known: &[Extent]) -> bool {
        self.extents.iter().all(|it| it.covers_any(known))
    }

    /// Returns what samples of these lengths are padded to, none of which is too large: all of them alike, unless that is, or
    /// else each to its own cell.
    pub(crate) fn padded(&self, extents: &[Extent]) -> Vec<Extent> {
        let own = || extents.iter().map(|it| self.cells.padded(*it));
        let all = own().reduce(Extent::joined).filter(|it| !self.has_cell(*it));
        all.map_or_else(|| own().collect(), |all| vec![all; extents.len()])
    }
}

/// On one axis says what the longest is that is not too large.
impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cells.n_axes() == 1 {
            let longest = self.cells.iter().rfind(|it| !self.has_cell(**it)).map_or(0, |it| it.edge());
            return write!(f, "longer than {longest}");
        }
        let extents: Vec<_> = self.extents.iter().map(ToString::to_string).collect();
        write!(f, "padded to {} and more", extents.join(", or to "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(edges: [u32; 2]) -> Extent {
        Extent::try_new(&edges).unwrap()
    }

    #[test]
    fn a_sample_is_too_large_by_its_own_cell() {
        let on_one_axis = TooLarge::from(vec![25.into()], &vec![8, 16, 24, 40].into());
        assert_eq!([8, 24, 25, 40, 41].map(|it| on_one_axis.has(it.into())), [false, false, true, true, true]);
        assert_eq!(on_one_axis.to_string(), "longer than 24");
        let cells: Cells = [[1, 8], [4, 2], [4, 8]].into_iter().map(extent).collect();
        let on_two = TooLarge::from(vec![extent([2, 5])], &cells);
        assert_eq!(
            [[1, 8], [4, 2], [2, 5], [2, 3], [4, 8]].map(|it| on_two.has(extent(it))),
            [false, false, true, true, true]
        );
        assert_eq!(on_two.to_string(), "padded to 2 × 5 and more");
        assert!(on_two.is_within(&[extent([2, 3])]) && !on_two.is_within(&[extent([3, 3])]));
        assert!(!TooLarge::default().has(40.into()));
    }

    #[test]
    fn samples_that_are_too_large_together_are_padded_apart() {
        let cells: Cells = [[1, 8], [2, 8], [4, 2], [4, 8]].into_iter().map(extent).collect();
        let too_large = TooLarge::from(vec![extent([4, 8])], &cells);
        let padded = |of: &[[u32; 2]]| too_large.padded(&of.iter().copied().map(extent).collect::<Vec<_>>());
        assert_eq!(padded(&[[1, 7], [2, 1]]), [extent([2, 8]); 2]);
        assert_eq!(padded(&[[1, 7], [4, 1]]), [extent([1, 8]), extent([4, 2])]);
    }
}
