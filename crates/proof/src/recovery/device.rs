//! What a step needs.

use plimsoll_types::{Bytes, StepShape};

use crate::finder::Random;

/// What the device has: a card with 12 GiB.
pub(super) const CAPACITY: Bytes = Bytes::gib(12);

/// The share of the capacity that a step may use; the default of a run.
pub(super) const TARGET: f64 = 0.9;

/// Weights and moments.
pub(super) const RESIDENT: Bytes = Bytes::gib(1);

/// Bytes per feature at three instants: the head's, the activations' and the backward pass's peak.
const INSTANTS: [[f64; 4]; 3] = [[6e8, 1e6, 1.2e4, 1.9e3], [2e8, 2e6, 3e4, 2.48e3], [1e8, 1e7, 1e3, 2.5e3]];

/// Returns what a micro-batch reads at its peak, with noise and with what others hold in the same process.
pub(super) fn reading(shape: StepShape, noise: f64, burst: Bytes, random: &mut Random) -> Bytes {
    let (n, e) = (f64::from(shape.samples), f64::from(shape.edge()));
    let features = [1.0, n, n * e, n * e * e];
    let at = |theta: [f64; 4]| theta.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
    let need = INSTANTS.map(at).into_iter().fold(0.0, f64::max) * (1.0 + noise * random.uniform(0.0, 1.0));
    RESIDENT.saturating_add(Bytes::from_f64_ceil(need)).saturating_add(burst)
}
