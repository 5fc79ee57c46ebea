//! What attention adds for positions.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Returns the bias of the positions `rows` towards all up to the last of them, computed on the device.
///
/// What comes later is out of sight; what came before loses with its distance, in each head at a slope of its own.
/// This is the one tensor of a step that grows with the square of the edge, but not with the batch: it takes 4 MiB for
/// 4 heads at an edge of 512, where a single sample's scores take as much in every layer.
/// All layers of a pass share it, and no gradient goes through it: it is a constant without a graph, which goes with tensors of
/// any strategy of gradients.
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
    let (n_rows, n_columns, plain) = (rows.len(), rows.end, device.clone().inner());
    let distance = positions(rows, &plain).reshape([1, 1, n_rows, 1])
        - positions(0..n_columns, &plain).reshape([1, 1, 1, n_columns]);
    let is_later = distance.clone().lower_elem(0);
    (distance * slopes(heads, &plain)).mask_fill(is_later, f32::NEG_INFINITY)
}

/// Returns what keeps the samples of a row out of each other's sight, without a graph.
///
/// It takes 1 MiB for each row of 512 positions, once in a pass, where the scores of a row take 4 in every layer of 4 heads.
///
/// # Shapes
///
/// - `segments`: `[batch_size, edge]`
/// - output: `[batch_size, 1, edge, edge]`
pub(crate) fn apart(segments: Tensor<2, Int>) -> Tensor<4> {
    let segments = segments.inner();
    let [n, edge] = segments.dims();
    let is_other = segments.clone().reshape([n, 1, edge, 1]).not_equal(segments.reshape([n, 1, 1, edge]));
    Tensor::zeros([n, 1, edge, edge], &is_other.device()).mask_fill(is_other, f32::NEG_INFINITY)
}

fn positions(range: Range<usize>, device: &Device) -> Tensor<1> {
    let [start, end] = [range.start, range.end].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    Tensor::<1, Int>::arange(start..end, device).float()
}

/// Returns what each head adds for a distance of one: `[1, heads, 1, 1]`.
fn slopes(heads: usize, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(slope(heads).map(|it| -it).collect(), [1, heads, 1, 1]), device)
}

/// Returns what each head takes off for a distance of one.
pub(crate) fn slope(heads: usize) -> impl Iterator<Item = f32> {
    (1..=heads).map(move |head| (-8.0 * head as f32 / heads as f32).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bias as it is written down, value by value.
    fn by_hand(heads: usize, rows: Range<usize>) -> Vec<f32> {
        let value = |head: usize, row: usize, column: usize| {
            let slope = (-8.0 * head as f32 / heads as f32).exp2();
            if row < column { f32::NEG_INFINITY } else { -slope * (row - column) as f32 }
        };
        let of_row = |head, row| (0..rows.end).map(move |column| value(head, row, column));
        (1..=heads).flat_map(|head| rows.clone().flat_map(move |row| of_row(head, row))).collect()
    }

    #[test]
    fn later_positions_are_out_of_sight_and_earlier_ones_lose() {
        let values = |rows| bias(2, rows, &Device::flex()).into_data().try_into_vec::<f32>().unwrap();
        let (far, out) = (f32::NEG_INFINITY, 1.0 / 16.0);
        let whole = [0.0, far, far, -out, 0.0, far, -2.0 * out, -out, 0.0];
        assert_eq!(values(0..3)[..9], whole);
        assert_eq!(values(2..3)[..3], whole[6..]);
        assert_eq!(values(2..3)[3..], [-2.0 / 256.0, -1.0 / 256.0, 0.0]);
    }

    #[test]
    fn samples_of_a_row_are_out_of_sight_of_each_other() {
        for device in [Device::flex(), Device::flex().autodiff()] {
            let segments = Tensor::from_data(TensorData::from([[1, 1, 2, 0], [1, 0, 0, 0]]), &device);
            let values = apart(segments).into_data().try_into_vec::<f32>().unwrap();
            let seen: Vec<_> = values.iter().map(|it| u8::from(*it == 0.0)).collect();
            assert_eq!(seen[..16], [1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
            assert_eq!(seen[16..], [1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1]);
            assert!(values.iter().all(|it| *it == 0.0 || *it == f32::NEG_INFINITY));
        }
    }

    #[test]
    fn what_a_device_computes_is_what_is_written_down_to_the_last_bit() {
        for (heads, rows) in [(1, 0..1), (2, 0..3), (4, 0..67), (3, 0..128), (4, 30..31), (2, 5..19)] {
            for device in [Device::flex(), Device::flex().autodiff()] {
                let bias = bias(heads, rows.clone(), &device);
                assert_eq!(bias.dims(), [1, heads, rows.len(), rows.end]);
                let values = bias.into_data().try_into_vec::<f32>().unwrap();
                let as_bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                assert_eq!(as_bits(values), as_bits(by_hand(heads, rows.clone())), "{heads} heads, {rows:?}");
            }
        }
    }
}
