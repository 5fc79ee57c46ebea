//! Functions of rows of numbers, forward and backward, in loops that a compiler makes vectors of, as wide as the processor's where
//! [`wide`] runs them.

#![expect(clippy::inline_always, reason = "what is not inlined is not as wide")]

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// What is added to a variance before its root is taken: the default of Burn's layer.
const EPSILON: f32 = 1e-5;

/// Sums are taken in as many strands: the widest vectors have 16 numbers.
const STRANDS: usize = 16;

/// Below it, an exponential is taken for 0: the smallest normal number is not far.
const LEAST: f32 = -87.0;

/// Runs loops in the widest vectors that the processor has.
///
/// The numbers are the same in vectors of any width.
pub(crate) fn wide(loops: impl pulp::NullaryFnOnce) {
    pulp::Arch::new().dispatch(loops);
}

/// Names loops over what they are made of. They are always inlined, which a closure or a function that is passed on is not.
macro_rules! loops {
    ($(#[$doc:meta])* $name:ident($($field:ident: $kind:ty),+) $body:block) => {
        $(#[$doc])*
        pub(crate) struct $name<'a>($(pub(crate) $kind),+);

        impl pulp::NullaryFnOnce for $name<'_> {
            type Output = ();

            #[inline(always)]
            fn call(self) {
                let Self($($field),+) = self;
                $body
            }
        }
    };
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

loops! {
    /// Multiplies each number by the probability that a normal one is below it.
    Gelu(x: &'a [f32], into: &'a mut [f32]) {
        into.iter_mut().zip(x).for_each(|(into, x)| *into = x * normal(*x).0);
    }
}

loops! {
    /// Turns the gradients of what [`Gelu`] has made into those of `x`.
    GeluBackward(x: &'a [f32], gradient: &'a mut [f32]) {
        for (gradient, x) in gradient.iter_mut().zip(x) {
            let (below, density) = normal(*x);
            *gradient *= below + x * density;
        }
    }
}

loops! {
    /// Turns rows into what their softmax is.
    Softmax(width: usize, rows: &'a mut [f32]) {
        for row in rows.chunks_mut(width) {
            share(row, 1.0);
        }
    }
}

loops! {
    /// Turns scores of positions, each among those that some see of a run and the first of them at a place, into shares of what it
    /// sees, for each head by its slope.
    Attend(scores: &'a mut [f32], first: usize, sizes: [usize; 2], slopes: &'a [f32], scale: f32) {
        let [n_rows, n_seen] = sizes;
        for (head, slope) in scores.chunks_exact_mut(n_rows * n_seen).zip(slopes) {
            for (row, at) in head.chunks_exact_mut(n_seen).zip(first..) {
                let (before, after) = row.split_at_mut(at + 1);
                for (place, score) in before.iter_mut().enumerate() {
                    *score = *score * scale - slope * (at - place) as f32;
                }
                share(before, 1.0);
                after.fill(0.0);
            }
        }
    }
}

loops! {
    /// Appends the losses of rows of logits, the negative logarithms of the probabilities of their targets, each by a weight,
    /// and turns the logits into their gradients.
    CrossEntropy(logits: &'a mut [f32], targets: &'a [i64], weights: &'a [f32], into: &'a mut Vec<f32>) {
        let width = logits.len() / targets.len().max(1);
        for ((row, target), weight) in logits.chunks_exact_mut(width).zip(targets).zip(weights) {
            let target = usize::try_from(*target).unwrap_or(usize::MAX);
            let own = row[target];
            let (most, sum) = share(row, *weight);
            row[target] -= weight;
            into.push(weight * (sum.ln() + (most - own)));
        }
    }
}

/// Divides `all` among a row in proportion to its exponentials, and returns the most of the row, and the sum of the exponentials
/// less that.
#[inline(always)]
fn share(row: &mut [f32], all: f32) -> (f32, f32) {
    let mut most = [f32::NEG_INFINITY; STRANDS];
    for part in row.chunks(STRANDS) {
        most.iter_mut().zip(part).for_each(|(most, it)| *most = if *most < *it { *it } else { *most });
    }
    let most = joined(most, |a, b| if a < b { b } else { a });
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

loops! {
    /// Turns the gradients of rows that [`Softmax`] has made into those of the rows before.
    SoftmaxBackward(width: usize, made: &'a [f32], gradients: &'a mut [f32]) {
        for (row, gradient) in made.chunks(width).zip(gradients.chunks_mut(width)) {
            let row = &row[..gradient.len()];
            let mean = sum(row.len(), |at| row[at] * gradient[at]);
            gradient.iter_mut().zip(row).for_each(|(gradient, it)| *gradient = it * (*gradient - mean));
        }
    }
}

/// The mean of a row, and one divided by its standard deviation.
#[inline(always)]
fn moments(row: &[f32]) -> (f32, f32) {
    let share = 1.0 / row.len() as f32;
    let mean = sum(row.len(), |at| row[at]) * share;
    let variance = sum(row.len(), |at| (row[at] - mean) * (row[at] - mean)) * share;
    (mean, 1.0 / (variance + EPSILON).sqrt())
}

loops! {
    /// Normalises rows, and scales and shifts them.
    Normalize(x: &'a [f32], affine: (&'a [f32], &'a [f32]), into: &'a mut [f32]) {
        let (gamma, beta) = affine;
        for (row, into) in x.chunks(gamma.len()).zip(into.chunks_mut(gamma.len())) {
            let (mean, scale) = moments(row);
            for (((into, it), gamma), beta) in into.iter_mut().zip(row).zip(gamma).zip(beta) {
                *into = (it - mean) * scale * gamma + beta;
            }
        }
    }
}

loops! {
    /// Turns the gradients of what [`Normalize`] has made into those of the rows, and adds those of `gamma` and `beta`.
    NormalizeBackward(x: &'a [f32], gamma: &'a [f32], gradients: &'a mut [f32], of_affine: (&'a mut [f32], &'a mut [f32])) {
        let (of_gamma, of_beta) = of_affine;
        let (n, share) = (gamma.len(), 1.0 / gamma.len() as f32);
        for (row, gradient) in x.chunks_exact(n).zip(gradients.chunks_exact_mut(n)) {
            let (mean, scale) = moments(row);
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
    }
}

loops! {
    /// Divides rows by the root of the mean of their squares, to which `epsilon` is added, and scales them.
    NormalizeRms(x: &'a [f32], gamma: &'a [f32], epsilon: f32, into: &'a mut [f32]) {
        for (row, into) in x.chunks_exact(gamma.len()).zip(into.chunks_exact_mut(gamma.len())) {
            let scale = by_rms(row, epsilon);
            for ((into, it), gamma) in into.iter_mut().zip(row).zip(gamma) {
                *into = it * scale * gamma;
            }
        }
    }
}

loops! {
    /// Turns the gradients of what [`NormalizeRms`] has made into those of the rows, and adds that of `gamma`.
    NormalizeRmsBackward(
        x: &'a [f32],
        gamma: &'a [f32],
        epsilon: f32,
        gradients: &'a mut [f32],
        of_gamma: &'a mut [f32]
    ) {
        let (n, share) = (gamma.len(), 1.0 / gamma.len() as f32);
        for (row, gradient) in x.chunks_exact(n).zip(gradients.chunks_exact_mut(n)) {
            let scale = by_rms(row, epsilon);
            let along = sum(n, |at| gradient[at] * gamma[at] * row[at]) * share * scale * scale;
            for ((of_gamma, gradient), it) in of_gamma.iter_mut().zip(gradient.iter()).zip(row) {
                *of_gamma += gradient * it * scale;
            }
            for ((gradient, it), gamma) in gradient.iter_mut().zip(row).zip(gamma) {
                *gradient = scale * (*gradient * gamma - it * along);
            }
        }
    }
}

/// One divided by the root of the mean of the squares of a row.
#[inline(always)]
fn by_rms(row: &[f32], epsilon: f32) -> f32 {
    1.0 / (sum(row.len(), |at| row[at] * row[at]) / row.len() as f32 + epsilon).sqrt()
}

loops! {
    /// Adds numbers, by a factor, to others.
    Add(from: &'a [f32], factor: f32, into: &'a mut [f32]) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into += factor * from);
    }
}

loops! {
    /// Adds rows of `n` numbers each, by a factor, to those of others that begin at a place of theirs and have so many each.
    AddRows(from: &'a [f32], n: usize, factor: f32, into: &'a mut [f32], columns: [usize; 2]) {
        let [start, width] = columns;
        for (row, from) in into.chunks_exact_mut(width).zip(from.chunks_exact(n)) {
            row[start..][..n].iter_mut().zip(from).for_each(|(into, from)| *into += factor * from);
        }
    }
}

loops! {
    /// Multiplies numbers by a factor.
    Scale(numbers: &'a mut [f32], factor: f32) {
        for it in numbers {
            *it *= factor;
        }
    }
}

/// Returns the sum of what `of` says of each of `n` places.
#[inline(always)]
pub(crate) fn sum(n: usize, of: impl Fn(usize) -> f32) -> f32 {
    let (mut strands, whole) = ([0.0; STRANDS], n - n % STRANDS);
    for start in (0..whole).step_by(STRANDS) {
        strands.iter_mut().enumerate().for_each(|(at, strand)| *strand += of(start + at));
    }
    strands.iter_mut().zip(whole..n).for_each(|(strand, at)| *strand += of(at));
    joined(strands, |a, b| a + b)
}

/// Joins strands two by two, so that none waits for all before it.
#[inline(always)]
fn joined(mut strands: [f32; STRANDS], join: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [STRANDS / 2, STRANDS / 4, STRANDS / 8, STRANDS / 16] {
        let (some, others) = strands.split_at_mut(half);
        some.iter_mut().zip(others).for_each(|(it, other)| *it = join(*it, *other));
    }
    strands[0]
}
