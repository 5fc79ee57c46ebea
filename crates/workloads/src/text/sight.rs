//! Which positions of a batch see each other.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Int, Tensor};
use plimsoll_nn::Runs;

use super::bias::{apart, bias, slope};

/// Which positions of a batch see each other: those of one sample, of which each sees itself and those before it.
#[derive(Clone, Debug)]
pub struct Sight {
    shape: [usize; 2],
    /// Where each sample lies, row after row.
    samples: Arc<[Range<usize>]>,
    /// Which sample of its row each position belongs to, where rows have several.
    segments: Option<Tensor<2, Int>>,
}

impl Sight {
    /// Each of `n` rows is a sample of `edge` positions.
    pub fn of_rows([n, edge]: [usize; 2]) -> Self {
        let samples = (0..n).map(|row| row * edge..(row + 1) * edge).collect();
        Self { shape: [n, edge], samples, segments: None }
    }

    /// Samples that lie at these places of rows, which `segments` tells apart where a row has several.
    ///
    /// # Shapes
    ///
    /// - `segments`: `shape`
    pub(crate) fn new(shape: [usize; 2], samples: Arc<[Range<usize>]>, segments: Option<Tensor<2, Int>>) -> Self {
        Self { shape, samples, segments }
    }

    /// Tells the samples of rows apart.
    pub(crate) fn told_apart(self, segments: Tensor<2, Int>) -> Self {
        Self { segments: Some(segments), ..self }
    }

    #[cfg(test)]
    pub(crate) fn samples(&self) -> &[Range<usize>] {
        &self.samples
    }

    #[cfg(test)]
    pub(crate) fn segments(&self) -> Option<Tensor<2, Int>> {
        self.segments.clone()
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns it for attention in runs.
    pub(crate) fn runs(&self, heads: usize) -> Runs {
        Runs::new(Arc::clone(&self.samples), slope(heads))
    }

    /// Returns what is added to the scores of whole rows, on the device of some features.
    pub(crate) fn biases(&self, heads: usize, features: &Tensor<2>) -> Vec<Tensor<4>> {
        let bias = bias(heads, 0..self.shape[1], &features.device());
        [bias].into_iter().chain(self.segments.clone().map(apart)).collect()
    }
}
