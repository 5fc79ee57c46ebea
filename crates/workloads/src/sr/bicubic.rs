//! Bicubic upsampling by two, as a matrix product.

use burn::tensor::{Device, Tensor, TensorData};

/// The free parameter of the cubic kernel; −0.5 is Catmull–Rom, as in `image` and in most super-resolution papers.
const A: f32 = -0.5;

/// Doubles the sides of a batch of images with half-pixel centres and renormalised borders.
///
/// Two products with a banded matrix instead of a resize operation: every backend runs it the same way.
///
/// # Shapes
///
/// - `images`: `[batch_size, channels, height, width]`
/// - output: `[batch_size, channels, 2 · height, 2 · width]`
pub fn upsample_bicubic(images: Tensor<4>) -> Tensor<4> {
    let [_, _, height, width] = images.dims();
    let device = images.device();
    let rows = matrix(height, &device).reshape([1, 1, 2 * height, height]);
    let columns = matrix(width, &device).transpose().reshape([1, 1, width, 2 * width]);
    rows.matmul(images).matmul(columns)
}

/// Returns the `[2 · n, n]` matrix that interpolates between `n` pixels.
fn matrix(n: usize, device: &Device) -> Tensor<2> {
    let mut weights = vec![0.0; 2 * n * n];
    for (out, row) in weights.chunks_exact_mut(n).enumerate() {
        fill_row(out, row);
    }
    Tensor::from_data(TensorData::new(weights, [2 * n, n]), device)
}

#[expect(clippy::cast_precision_loss, reason = "an image side is far below 2^24 pixels")]
fn fill_row(out: usize, row: &mut [f32]) {
    let centre = (out as f32 - 0.5) / 2.0;
    for (at, weight) in row.iter_mut().enumerate() {
        *weight = cubic((at as f32 - centre).abs());
    }
    let sum: f32 = row.iter().sum();
    for weight in row {
        *weight /= sum;
    }
}

/// The cubic convolution kernel.
///
/// # Sources
///
/// Keys, "Cubic convolution interpolation for digital image processing", IEEE TASSP 1981.
fn cubic(x: f32) -> f32 {
    match x {
        ..=1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        ..2.0 => ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use image::imageops::{FilterType, resize};
    use image::{ImageBuffer, Luma};

    use super::*;

    #[test]
    fn it_is_the_filter_of_the_baseline() {
        let (width, height) = (9, 7);
        let pixels: Vec<f32> = (0..width * height).map(|at| ((at * 37) % 23) as f32 / 23.0).collect();
        let image = ImageBuffer::<Luma<f32>, _>::from_raw(width, height, pixels.clone()).unwrap();
        let expected = resize(&image, 2 * width, 2 * height, FilterType::CatmullRom);
        let data = TensorData::new(pixels, [1, 1, height as usize, width as usize]);
        let actual = upsample_bicubic(Tensor::from_data(data, &Device::flex())).into_data();
        // The image library clips at 0 and 1; the model does not.
        let close = |(a, b): (f32, &Luma<f32>)| (a.clamp(0.0, 1.0) - b.0[0].clamp(0.0, 1.0)).abs() < 1e-5;
        assert!(actual.iter::<f32>().zip(expected.pixels()).all(close), "{actual:?} {expected:?}");
    }
}
