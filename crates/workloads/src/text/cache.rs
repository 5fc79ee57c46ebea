//! Keys and values of what was generated so far.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

/// What attention adds for padding: far below any score, yet finite, so that a position that sees padding alone is
/// nonsense but a number.
const UNSEEN: f32 = -1e9;

/// The keys and values of all layers, in memory that is taken once.
#[derive(Debug)]
pub struct Cache {
    pub(crate) layers: Vec<LayerCache>,
    padding: Tensor<4>,
    filled: usize,
}

/// The keys and values of one layer.
///
/// # Shapes
///
/// - both: `[batch_size, heads, positions, width / heads]`
#[derive(Debug)]
pub(crate) struct LayerCache {
    keys: Tensor<4>,
    values: Tensor<4>,
    filled: usize,
}

impl Cache {
    pub(crate) fn new(layers: usize, shape: [usize; 4], n_padding: &[usize], device: &Device) -> Self {
        let [n, _, positions, _] = shape;
        let empty = || Tensor::zeros(shape, device);
        let unseen = |&n: &usize| (0..positions).map(move |at| if at < n { UNSEEN } else { 0.0 });
        let padding = n_padding.iter().flat_map(unseen).collect();
        Self {
            layers: (0..layers).map(|_| LayerCache { keys: empty(), values: empty(), filled: 0 }).collect(),
            padding: Tensor::from_data(TensorData::new(padding, [n, 1, 1, positions]), device),
            filled: 0,
        }
    }

    /// Counts new positions and returns them.
    pub(crate) fn advance(&mut self, n_new: usize) -> Range<usize> {
        let rows = self.filled..self.filled + n_new;
        let [_, _, _, positions] = self.padding.dims();
        assert!(rows.end <= positions, "a cache for {positions} positions is asked to hold {}", rows.end);
        self.filled = rows.end;
        rows
    }

    /// Returns what to add for padding to the scores of the first `n` positions: `[batch_size, 1, 1, n]`.
    pub(crate) fn padding(&self, n: usize) -> Tensor<4> {
        self.padding.clone().slice_dim(3, 0..n)
    }
}

impl LayerCache {
    /// Adds keys and values, and returns all so far.
    pub(crate) fn extend(&mut self, keys: Tensor<4>, values: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let [n, heads, n_new, width] = keys.dims();
        let (start, end) = (self.filled, self.filled + n_new);
        let place = [0..n, 0..heads, start..end, 0..width];
        self.keys.inplace(|it| it.slice_assign(place.clone(), keys));
        self.values.inplace(|it| it.slice_assign(place, values));
        self.filled = end;
        (self.keys.clone().slice_dim(2, 0..end), self.values.clone().slice_dim(2, 0..end))
    }
}
