//! What a mixed sample is as long as, and what it is padded to.

use crate::{CollateError, Lattice};

/// The lengths of a sample on every axis that is padded, or what the samples of a batch are padded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixedShape {
    /// Number of images.
    pub images: u32,
    /// Height of the highest image in pixels.
    pub height: u32,
    /// Width of the widest image in pixels.
    pub width: u32,
    /// Number of token ids.
    pub tokens: u32,
    /// Number of labels.
    pub labels: u32,
}

/// The names of the axes, in their order in a lattice.
const AXES: [&str; 5] = ["images", "height", "width", "tokens", "labels"];

impl MixedShape {
    /// Returns the greater length on every axis.
    #[must_use]
    pub fn longest(self, other: Self) -> Self {
        let (ours, theirs) = (self.axes(), other.axes());
        Self::from_axes(std::array::from_fn(|axis| ours[axis].max(theirs[axis])))
    }

    /// Returns the lattice's cell for these lengths, if there is one.
    ///
    /// The axes of the lattice are images, height, width, tokens and labels, in this order.
    /// An axis of length 0 stays as it is: a batch without images is not given any.
    pub fn cell(self, lattice: &Lattice<5>) -> Option<Self> {
        let lengths = self.axes();
        let cell = lattice.cell(lengths)?;
        Some(Self::from_axes(std::array::from_fn(|axis| if lengths[axis] == 0 { 0 } else { cell[axis] })))
    }

    /// Accepts a sample of this shape into a batch that is padded to `cell`.
    pub(super) fn within(self, cell: Self, id: u64) -> Result<(), CollateError> {
        let limits = cell.axes().map(Some);
        self.exceeds(limits).map_or(Ok(()), |(axis, size, limit)| Err(refused(id, axis, size, limit)))
    }

    /// Accepts a sample of this shape for which the lattice has a cell.
    pub(super) fn on(self, lattice: &Lattice<5>, id: u64) -> Result<(), CollateError> {
        let limits = lattice.last_edges();
        self.exceeds(limits).map_or(Ok(()), |(axis, size, limit)| Err(refused(id, axis, size, limit)))
    }

    fn exceeds(self, limits: [Option<u32>; 5]) -> Option<(&'static str, u32, u32)> {
        let lengths = AXES.into_iter().zip(self.axes()).zip(limits);
        lengths.filter_map(|((axis, size), limit)| Some((axis, size, limit?))).find(|(_, size, limit)| size > limit)
    }

    fn axes(self) -> [u32; 5] {
        [self.images, self.height, self.width, self.tokens, self.labels]
    }

    fn from_axes([images, height, width, tokens, labels]: [u32; 5]) -> Self {
        Self { images, height, width, tokens, labels }
    }
}

fn refused(id: u64, axis: &'static str, size: u32, limit: u32) -> CollateError {
    CollateError::DoesNotFit { id, axis, size: size.into(), limit: limit.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_goes_to_its_own_edge() {
        let edges = [vec![2, 4], vec![16, 32], vec![], vec![8, 64], vec![8, 64]];
        let lattice = Lattice::try_new(edges).unwrap();
        let lengths = MixedShape { images: 3, height: 16, width: 17, tokens: 9, labels: 1 };
        let cell = MixedShape { images: 4, height: 16, width: 17, tokens: 64, labels: 8 };
        assert_eq!(lengths.cell(&lattice), Some(cell));
        assert_eq!(MixedShape { images: 5, ..lengths }.cell(&lattice), None);
    }

    #[test]
    fn what_no_sample_has_is_not_padded_to_an_edge() {
        let lattice = Lattice::try_new([vec![2], vec![16], vec![16], vec![8], vec![8]]).unwrap();
        let text = MixedShape { tokens: 3, ..MixedShape::default() };
        assert_eq!(text.cell(&lattice), Some(MixedShape { tokens: 8, ..MixedShape::default() }));
    }
}
