//! What attention adds for positions.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

/// Returns the bias of the positions `rows` towards all up to the last of them.
///
/// What comes later is out of sight; what came before loses with its distance, in each head at a slope of its own.
/// This is the one tensor of a step that grows with the square of the edge, but not with the batch: it takes 4 MiB for
/// 4 heads at an edge of 512, where a single sample's scores take as much in every layer.
///
/// # Shapes
///
/// - output: `[1, heads, rows.len(), rows.end]`
///
/// # Sources
///
/// Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
/// ICLR 2022.
pub(crate) fn bias(heads: usize, rows: Range<usize>, device: &Device) -> Tensor<4> {
    let (n_rows, n_columns) = (rows.len(), rows.end);
    let mut values = Vec::with_capacity(heads * n_rows * n_columns);
    for head in 1..=heads {
        let slope = (-8.0 * head as f32 / heads as f32).exp2();
        for row in rows.clone() {
            values.extend((0..=row).map(|column| -slope * (row - column) as f32));
            values.extend(std::iter::repeat_n(f32::NEG_INFINITY, n_columns - row - 1));
        }
    }
    Tensor::from_data(TensorData::new(values, [1, heads, n_rows, n_columns]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_positions_are_out_of_sight_and_earlier_ones_lose() {
        let values = |rows| bias(2, rows, &Device::flex()).into_data().try_into_vec::<f32>().unwrap();
        let (far, out) = (f32::NEG_INFINITY, 1.0 / 16.0);
        let whole = [0.0, far, far, -out, 0.0, far, -2.0 * out, -out, 0.0];
        assert_eq!(values(0..3)[..9], whole);
        assert_eq!(values(2..3)[..3], whole[6..]);
        assert_eq!(values(2..3)[3..], [-2.0 / 256.0, -1.0 / 256.0, 0.0]);
    }
}
