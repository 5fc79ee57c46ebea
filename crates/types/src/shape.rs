//! What a batch looks like to the memory model.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Most axes along which a sample can extend: height, width and tokens, say.
pub const MAX_AXES: usize = 3;

/// What one sample extends to after padding or cropping, along each of its axes: tokens or frames of a sequence, the
/// side in pixels of a square patch, images of a group.
///
/// Written as a list, `[128]` or `[12, 64]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Vec<u32>")]
pub struct Extent {
    /// Axes that are not used have 0.
    edges: [u32; MAX_AXES],
}

/// Edges that make no extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtentError {
    /// There is no axis, or more than there can be.
    #[error("describe a shape: it has {0} axes, but must have 1 to {MAX_AXES}")]
    NAxes(usize),
    /// One of several axes has no extent.
    #[error("describe a shape: its edge along axis {axis} is 0, but must be at least 1 where there are several axes")]
    NoEdge {
        /// The axis, from 0.
        axis: usize,
    },
}

impl Extent {
    /// Describes samples with one axis.
    pub const fn new(edge: u32) -> Self {
        Self { edges: [edge, 0, 0] }
    }

    /// Describes samples with one axis or several.
    ///
    /// # Errors
    ///
    /// [`ExtentError::NAxes`] for none or more than [`MAX_AXES`], [`ExtentError::NoEdge`] for an edge of 0 among several.
    pub fn try_new(edges: &[u32]) -> Result<Self, ExtentError> {
        if edges.is_empty() || MAX_AXES < edges.len() {
            return Err(ExtentError::NAxes(edges.len()));
        }
        match edges.iter().position(|it| *it == 0) {
            Some(axis) if 1 < edges.len() => Err(ExtentError::NoEdge { axis }),
            _ => Ok(Self { edges: std::array::from_fn(|axis| edges.get(axis).copied().unwrap_or(0)) }),
        }
    }

    /// Returns the edge along the first axis.
    pub const fn edge(self) -> u32 {
        self.edges[0]
    }

    /// Returns the edge along each axis; there is at least one.
    pub fn edges(&self) -> &[u32] {
        &self.edges[..self.n_axes()]
    }

    /// Returns how many axes there are.
    pub fn n_axes(&self) -> usize {
        self.edges.iter().rposition(|it| *it != 0).map_or(1, |last| last + 1)
    }

    /// Whether this is at least as large as `other` along every axis.
    pub fn covers(self, other: Self) -> bool {
        self.edges.iter().zip(other.edges).all(|(own, theirs)| *own >= theirs)
    }

    /// Whether this covers one of these.
    pub fn covers_any(self, others: &[Self]) -> bool {
        others.iter().any(|it| self.covers(*it))
    }

    /// Returns the smallest extent that covers both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self { edges: std::array::from_fn(|axis| self.edges[axis].max(other.edges[axis])) }
    }

    /// Returns those that no other one covers, each once, in growing order: on one axis the longest.
    pub fn outermost(extents: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let extents = BTreeSet::from_iter(extents);
        let is_covered = |it: &Self| extents.iter().any(|other| other != it && other.covers(*it));
        extents.iter().copied().filter(|it| !is_covered(it)).collect()
    }

    /// Returns those that cover no other one, each once, in growing order: on one axis the shortest.
    pub fn innermost(extents: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let extents = BTreeSet::from_iter(extents);
        let covers_one = |it: &Self| extents.iter().any(|other| other != it && it.covers(*other));
        extents.iter().copied().filter(|it| !covers_one(it)).collect()
    }

    /// Returns the product of all edges; a number that does not fit saturates.
    pub fn positions(self) -> u64 {
        self.edges().iter().fold(1, |n, edge| n.saturating_mul((*edge).into()))
    }
}

impl From<u32> for Extent {
    fn from(edge: u32) -> Self {
        Self::new(edge)
    }
}

impl TryFrom<Vec<u32>> for Extent {
    type Error = ExtentError;

    fn try_from(edges: Vec<u32>) -> Result<Self, ExtentError> {
        Self::try_new(&edges)
    }
}

/// As a list, which takes no memory: a log has one for each micro-batch.
impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.edges().serialize(serializer)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, others) = (self.edge(), &self.edges()[1..]);
        write!(f, "{first}")?;
        others.iter().try_for_each(|edge| write!(f, " × {edge}"))
    }
}

/// The padded shape of one micro-batch: how many samples, and the edges that they are padded or cropped to.
///
/// Both are what the kernels see, after padding.
/// Written as `{"samples":4,"edges":[32]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepShape {
    /// Samples in the micro-batch.
    pub samples: u32,
    /// What each of them extends to.
    #[serde(rename = "edges")]
    extent: Extent,
}

impl StepShape {
    /// Describes `samples` samples of this `edge`, along their one axis.
    pub const fn new(samples: u32, edge: u32) -> Self {
        Self { samples, extent: Extent::new(edge) }
    }

    /// Describes `samples` samples of this extent.
    pub const fn of(samples: u32, extent: Extent) -> Self {
        Self { samples, extent }
    }

    /// Returns the shape of another number of such samples.
    #[must_use]
    pub const fn with_samples(self, samples: u32) -> Self {
        Self { samples, ..self }
    }

    /// Returns what each sample extends to.
    pub const fn extent(self) -> Extent {
        self.extent
    }

    /// Returns the edge along the first axis: pixels along a side, or positions along a sequence.
    pub const fn edge(self) -> u32 {
        self.extent.edge()
    }

    /// Returns the edge along each axis; there is at least one.
    pub fn edges(&self) -> &[u32] {
        self.extent.edges()
    }

    /// Whether there is no sample, or nothing in each.
    pub const fn is_empty(self) -> bool {
        self.samples == 0 || self.extent.edge() == 0
    }

    /// Returns samples times all edges; a number that does not fit saturates.
    pub fn positions(self) -> u64 {
        self.extent.positions().saturating_mul(self.samples.into())
    }

    /// Whether this shape has at least as many samples as `other`, at least as large along every axis.
    pub fn covers(self, other: Self) -> bool {
        self.samples >= other.samples && self.extent.covers(other.extent)
    }
}

impl fmt::Display for StepShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.samples, self.extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(samples: u32, edges: &[u32]) -> StepShape {
        StepShape::of(samples, Extent::try_new(edges).unwrap())
    }

    #[test]
    fn the_outermost_of_some_extents_are_those_that_no_other_covers_and_the_innermost_those_that_cover_none() {
        let both = |edges: &[&[u32]]| {
            let extents = || edges.iter().map(|it| Extent::try_new(it).unwrap());
            let told = |them: Vec<Extent>| them.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            [told(Extent::outermost(extents())), told(Extent::innermost(extents()))]
        };
        assert_eq!(both(&[&[8], &[40], &[8], &[40]]), ["40", "8"]);
        assert_eq!(both(&[&[4, 2], &[1, 8], &[4, 1], &[2, 8], &[1, 8]]), ["2 × 8, 4 × 2", "1 × 8, 4 × 1"]);
        assert_eq!(both(&[]), ["", ""]);
    }

    #[test]
    fn a_shape_covers_what_is_no_larger_along_any_axis() {
        assert!(StepShape::new(4, 32).covers(StepShape::new(4, 16)));
        assert!(StepShape::new(4, 32).covers(StepShape::new(4, 32)));
        assert!(!StepShape::new(16, 16).covers(StepShape::new(4, 64)));
        assert!(!StepShape::new(4, 64).covers(StepShape::new(16, 16)));
        assert!(!StepShape::new(8, 16).covers(StepShape::new(4, 20)), "fewer positions are not enough");
        assert!(over(2, &[8, 4]).covers(over(2, &[8, 3])) && !over(2, &[8, 4]).covers(over(1, &[3, 5])));
    }

    #[test]
    fn a_shape_has_one_axis_or_several() {
        let shape = over(4, &[12, 64]);
        assert_eq!((shape.edge(), shape.edges(), shape.positions()), (12, &[12, 64][..], 4 * 12 * 64));
        assert_eq!((StepShape::new(4, 12).edges(), StepShape::new(4, 0).edges()), (&[12][..], &[0][..]));
        assert_eq!(Extent::try_new(&[]), Err(ExtentError::NAxes(0)));
        assert_eq!(Extent::try_new(&[1; 4]), Err(ExtentError::NAxes(4)));
        assert_eq!(Extent::try_new(&[5, 0, 3]), Err(ExtentError::NoEdge { axis: 1 }));
        assert_eq!((shape.to_string(), StepShape::new(4, 32).to_string()), ("4 × 12 × 64".into(), "4 × 32".into()));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for (shape, text) in [
            (StepShape::new(4, 32), r#"{"samples":4,"edges":[32]}"#),
            (over(2, &[8, 16, 3]), r#"{"samples":2,"edges":[8,16,3]}"#),
        ] {
            assert_eq!(serde_json::to_string(&shape).unwrap(), text);
            assert_eq!(serde_json::from_str::<StepShape>(text).unwrap(), shape);
        }
        assert!(serde_json::from_str::<StepShape>(r#"{"samples":4,"edges":[]}"#).is_err());
        assert!(serde_json::from_str::<StepShape>(r#"{"samples":4,"edge":32}"#).is_err());
    }
}
