//! Layers that are applied to the rows of all samples at once.

use burn::nn::Linear;
use burn::tensor::Tensor;

/// Applies a layer to every position of every sample, in one product over all of them.
///
/// Over three axes Burn multiplies either so or sample by sample, which gives each sample a gradient of the layer of its
/// own, depending on how the shape suits its tiles: a step would be another program at another length or batch size
/// (`burn_std::MatmulTransformPolicy`, Burn 0.22).
///
/// # Shapes
///
/// - `x`: `[batch_size, length, n_inputs]`
/// - output: `[batch_size, length, n_outputs]`
pub(crate) fn by_rows(layer: &Linear, x: Tensor<3>) -> Tensor<3> {
    let [batch_size, length, n_inputs] = x.dims();
    let rows: Tensor<2> = layer.forward(x.reshape([batch_size * length, n_inputs]));
    let n_outputs = rows.dims()[1];
    rows.reshape([batch_size, length, n_outputs])
}
