//! Functions of rows of numbers, forward and backward, in loops that a compiler makes vectors of: as wide as the processor's where
//! they are called within [`wide`], since they are always inlined.

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// What is added to a variance before its root is taken: the default of Burn's layer.
const EPSILON: f32 = 1e-5;

/// Sums are taken in as many strands, so that they are one vector wide or two.
const STRANDS: usize = 8;

/// Below it, an exponential is taken for 0: the smallest normal number is not far.
const LEAST: f32 = -87.0;

/// Runs loops in the widest vectors that the processor has.
///
/// The numbers are the same in vectors of any width.
pub(super) fn wide<R>(loops: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(loops)
}

/// Returns the exponential of a number that is not above 0, to the last bit but one.
///
/// # Sources
///
/// The polynomial of `expf` in Moshier's Cephes library, whose error is below 1e-7.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding it leaves a whole number in the lowest bits.
    const WHOLE: f32 = 12_582_912.0;
    /// The logarithm of 2, in two parts, so that multiples of the first are exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let is_seen = LEAST < x;
    let x = if is_seen { x } else { LEAST };
    let shifted = x * LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let of_r = ((1.987_569_2e-4 * r + 1.398_199_9e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2;
    let of_r = ((of_r * r + 1.666_666_6e-1) * r + 0.5) * r * r + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if is_seen { of_r * power } else { 0.0 }
}

/// Returns how probable it is that a normal number is below `x`, and the density there.
///
/// # Sources
///
/// The error function by 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964: within 1.5e-7.
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    /// The density at 0.
    const HIGHEST: f32 = 0.398_942_3;
    let z = x.abs() * FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let bell = exp(-z * z);
    let of_t = ((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_74;
    let tail = 0.5 * (of_t * t + 0.254_829_6) * t * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, HIGHEST * bell)
}

#[inline(always)]
pub(super) fn gelu(x: &[f32], into: &mut [f32]) {
    into.iter_mut().zip(x).for_each(|(into, x)| *into = x * normal(*x).0);
}

/// Turns the gradient of what [`gelu`] returned into that of `x`.
#[inline(always)]
pub(super) fn gelu_backward(x: &[f32], gradient: &mut [f32]) {
    for (gradient, x) in gradient.iter_mut().zip(x) {
        let (below, density) = normal(*x);
        *gradient *= below + x * density;
    }
}

/// Turns a row into what its softmax is.
#[inline(always)]
pub(super) fn softmax(row: &mut [f32]) {
    share(row, 1.0);
}

/// Turns logits into the gradient of what it returns: how surprising a target is, the negative logarithm of its probability, by
/// a weight.
#[inline(always)]
pub(super) fn surprise(row: &mut [f32], target: usize, weight: f32) -> f32 {
    let own = row[target];
    let (most, sum) = share(row, weight);
    row[target] -= weight;
    weight * (sum.ln() + (most - own))
}

/// Divides `all` among a row in proportion to its exponentials, and returns the most of the row, and the sum of the exponentials
/// less that.
#[inline(always)]
fn share(row: &mut [f32], all: f32) -> (f32, f32) {
    let mut most = [f32::NEG_INFINITY; STRANDS];
    for part in row.chunks(STRANDS) {
        most.iter_mut().zip(part).for_each(|(most, it)| *most = if *most < *it { *it } else { *most });
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
    for it in row.iter_mut() {
        *it = exp(*it - most);
    }
    let sum = sum(row.len(), |at| row[at]);
    let scale = all / sum;
    for it in row {
        *it *= scale;
    }
    (most, sum)
}

/// Turns the gradient of a row that [`softmax`] has made into that of the row before.
#[inline(always)]
pub(super) fn softmax_backward(row: &[f32], gradient: &mut [f32]) {
    let row = &row[..gradient.len()];
    let mean = sum(row.len(), |at| row[at] * gradient[at]);
    gradient.iter_mut().zip(row).for_each(|(gradient, it)| *gradient = it * (*gradient - mean));
}

/// The mean of a row, and one divided by its standard deviation.
#[inline(always)]
fn moments(row: &[f32]) -> (f32, f32) {
    let share = 1.0 / row.len() as f32;
    let mean = sum(row.len(), |at| row[at]) * share;
    let variance = sum(row.len(), |at| (row[at] - mean) * (row[at] - mean)) * share;
    (mean, 1.0 / (variance + EPSILON).sqrt())
}

#[inline(always)]
pub(super) fn normalize(row: &[f32], (gamma, beta): (&[f32], &[f32]), into: &mut [f32]) {
    let (mean, scale) = moments(row);
    for (((into, it), gamma), beta) in into.iter_mut().zip(row).zip(gamma).zip(beta) {
        *into = (it - mean) * scale * gamma + beta;
    }
}

/// Turns the gradient of what [`normalize`] has made of a row into that of the row, and adds those of `gamma` and `beta`.
#[inline(always)]
pub(super) fn normalize_backward(
    row: &[f32],
    gamma: &[f32],
    gradient: &mut [f32],
    (of_gamma, of_beta): (&mut [f32], &mut [f32]),
) {
    let n = row.len();
    let (gamma, gradient) = (&gamma[..n], &mut gradient[..n]);
    let ((mean, scale), share) = (moments(row), 1.0 / n as f32);
    let all = sum(n, |at| gradient[at] * gamma[at]) * share;
    let along = sum(n, |at| gradient[at] * gamma[at] * (row[at] - mean)) * share * scale * scale;
    for ((of_gamma, of_beta), (gradient, it)) in
        of_gamma.iter_mut().zip(of_beta.iter_mut()).zip(gradient.iter().zip(row))
    {
        *of_gamma += gradient * (it - mean) * scale;
        *of_beta += gradient;
    }
    for ((gradient, it), gamma) in gradient.iter_mut().zip(row).zip(gamma) {
        *gradient = scale * (*gradient * gamma - all - (it - mean) * along);
    }
}

/// Returns the sum of what `of` says of each of `n` places.
#[inline(always)]
pub(super) fn sum(n: usize, of: impl Fn(usize) -> f32) -> f32 {
    let (mut strands, whole) = ([0.0; STRANDS], n - n % STRANDS);
    for start in (0..whole).step_by(STRANDS) {
        strands.iter_mut().enumerate().for_each(|(at, strand)| *strand += of(start + at));
    }
    (whole..n).fold(strands.iter().sum(), |sum, at| sum + of(at))
}
