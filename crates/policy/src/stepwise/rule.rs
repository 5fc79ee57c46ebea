//! The arithmetic of the stepwise policy: a peak in, knobs out.

use plimsoll_types::Knobs;

use super::StepwiseConfig;

/// Room, as a share of the capacity, for which the patch grows by one pixel, at a trainer of image super-resolution.
const ROOM_PER_PIXEL: f64 = 0.05;
/// Room for which the batch grows by one sample, at the same trainer.
const ROOM_PER_SAMPLE: f64 = 0.03;
/// Excess over the target above which the batch shrinks twice as fast.
const LARGE_EXCESS_FOR_BATCH: f64 = 0.10;
/// Excess over the target above which the patch shrinks twice as fast.
const LARGE_EXCESS_FOR_PATCH: f64 = 0.15;

/// Returns larger knobs: patch first.
pub(super) fn grown(config: &StepwiseConfig, knobs: Knobs, ratio: f64) -> Knobs {
    let (bounds, room) = (&config.bounds, config.target - ratio);
    if knobs.patch_size < bounds.patch_max {
        let step = in_multiples(growth(room / ROOM_PER_PIXEL), bounds.patch_multiple);
        Knobs { patch_size: knobs.patch_size.saturating_add(step).min(bounds.patch_max), ..knobs }
    } else {
        let step = growth(room / ROOM_PER_SAMPLE);
        Knobs { micro_batch_size: knobs.micro_batch_size.saturating_add(step).min(bounds.batch_max), ..knobs }
    }
}

/// Returns smaller knobs: batch first.
pub(super) fn shrunk(config: &StepwiseConfig, knobs: Knobs, ratio: f64) -> Knobs {
    let bounds = &config.bounds;
    let by = |large_excess| if config.target + large_excess < ratio { 4 } else { 2 };
    if bounds.batch_min < knobs.micro_batch_size {
        let step = by(LARGE_EXCESS_FOR_BATCH);
        Knobs { micro_batch_size: knobs.micro_batch_size.saturating_sub(step).max(bounds.batch_min), ..knobs }
    } else {
        let step = in_multiples(by(LARGE_EXCESS_FOR_PATCH), bounds.patch_multiple);
        Knobs { patch_size: knobs.patch_size.saturating_sub(step).max(bounds.patch_min), ..knobs }
    }
}

/// Returns half the knobs, the patch rounded down to its multiple.
pub(super) fn halved(config: &StepwiseConfig, knobs: Knobs) -> Knobs {
    let bounds = &config.bounds;
    let half_patch = knobs.patch_size / 2 / bounds.patch_multiple * bounds.patch_multiple;
    Knobs {
        patch_size: half_patch.max(bounds.patch_min),
        micro_batch_size: (knobs.micro_batch_size / 2).max(bounds.batch_min),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "truncation is the rule, and the clamp leaves 2 to 8"
)]
fn growth(steps: f64) -> u32 {
    steps.trunc().clamp(2.0, 8.0) as u32
}

/// Rounds a step of the patch down to multiples, but to one at least: a patch that asks to move does move.
fn in_multiples(step: u32, multiple: u32) -> u32 {
    (step / multiple * multiple).max(multiple)
}
