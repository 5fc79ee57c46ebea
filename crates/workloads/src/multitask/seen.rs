//! Which parts of maps are of an image, and not of the padding beside it.

use burn::tensor::{DType, Device, Tensor, TensorData};
use plimsoll_train::sent;

/// How many convolutions see an image, each of which halves its sides.
pub(crate) const N_CONVOLUTIONS: usize = 3;

/// Which parts of the maps of one convolution are of an image.
///
/// # Shapes
///
/// Of `n` images on maps of `[edge, edge]`:
///
/// - `rows`, `columns`: `[n, edge]`, 1 where the image is, and 0 beside it
/// - `share`: `[n, 1]`, what each of the image's places counts in their mean
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    rows: Tensor<2>,
    columns: Tensor<2>,
    share: Tensor<2>,
}

impl Seen {
    /// Describes the maps of each convolution, of images with these heights and widths in places with sides of so many pixels.
    pub(crate) fn of(sizes: &[[usize; 2]], side: usize, device: &Device) -> Vec<Self> {
        let n = sizes.len();
        let halved = |it: usize, times: usize| (0..=times).fold(it, |it, _| it.div_ceil(2));
        let of_convolution = |at: usize| {
            let edge = halved(side, at);
            let along = |axis: usize| {
                let is_seen = |size: &[usize; 2]| {
                    let own = halved(size[axis], at);
                    (0..edge).map(move |place| if place < own { 1.0 } else { 0.0 })
                };
                sent(TensorData::new(sizes.iter().flat_map(is_seen).collect::<Vec<f32>>(), [n, edge]), device)
            };
            let share = |size: &[usize; 2]| match halved(size[0], at) * halved(size[1], at) {
                0 => 0.0,
                n_places => 1.0 / n_places as f32,
            };
            let share = TensorData::new(sizes.iter().map(share).collect::<Vec<f32>>(), [n, 1]);
            Self { rows: along(0), columns: along(1), share: sent(share, device) }
        };
        (0..N_CONVOLUTIONS).map(of_convolution).collect()
    }

    /// Describes the maps of so many images of nothing, made on the device.
    pub(crate) fn blank(n: usize, side: usize, device: &Device) -> Vec<Self> {
        let mut edge = side;
        let of_convolution = |_| {
            edge = edge.div_ceil(2);
            let none = || Tensor::zeros([n, edge], device);
            Self { rows: none(), columns: none(), share: Tensor::zeros([n, 1], device) }
        };
        (0..N_CONVOLUTIONS).map(of_convolution).collect()
    }

    pub(crate) fn in_format(self, dtype: DType) -> Self {
        let Self { rows, columns, share } = self;
        let [rows, columns, share] = [rows, columns, share].map(|it| it.cast(dtype));
        Self { rows, columns, share }
    }

    /// Makes what is beside the images 0, as what is beside an image without padding is to the next convolution.
    ///
    /// # Shapes
    ///
    /// - `maps` and output: `[n, channels, edge, edge]`
    pub(crate) fn only(&self, maps: Tensor<4>) -> Tensor<4> {
        let [n, edge] = self.rows.dims();
        let (rows, columns) =
            (self.rows.clone().reshape([n, 1, edge, 1]), self.columns.clone().reshape([n, 1, 1, edge]));
        maps * (rows * columns)
    }

    /// Returns the mean over the places of each image, of maps that are 0 beside it.
    ///
    /// # Shapes
    ///
    /// - `places`: `[n, channels, edge · edge]`
    /// - output: `[n, channels]`
    pub(crate) fn mean(&self, places: Tensor<3>) -> Tensor<2> {
        places.sum_dim(2).squeeze_dim::<2>(2) * self.share.clone()
    }
}
