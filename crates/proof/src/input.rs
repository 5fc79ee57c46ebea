//! Inputs that look like those of a run.

use plimsoll_types::{Bytes, Features, Knobs, MicroBatch, Observation, StepDone, StepShape};

/// Bytes per feature at three instants of a made-up training step, with the sizes of a small convolutional network.
///
/// Each is the peak of some shapes, so that no observation makes the others redundant.
const INSTANTS: [[f64; 6]; 3] = [
    [4e6, 1e3, 100.0, 1e4, 1200.0, 2500.0],
    [1e6, 2e3, 300.0, 2e4, 3000.0, 2460.0],
    [5e5, 3e4, 10.0, 3e5, 100.0, 2540.0],
];

const RESIDENT: Bytes = Bytes::mib(12);

/// Samples of one optimizer step, the default of a run.
const EFFECTIVE_BATCH_SIZE: u64 = 32;

/// Returns what a step of this shape was seen to need.
pub fn observation(shape: StepShape) -> Observation {
    let features = Features::default().of(shape);
    let need = |theta: [f64; 6]| theta.iter().zip(features).map(|(a, b)| a * b).sum::<f64>();
    let peak = RESIDENT.saturating_add(Bytes::from_f64_ceil(INSTANTS.map(need).into_iter().fold(0.0, f64::max)));
    Observation { shape, resident: RESIDENT, peak }
}

/// Returns `n` distinct shapes, at most 30, spread over batches of 1 to 32 samples and edges of 32 to 128.
pub fn shapes(n: usize) -> impl Iterator<Item = StepShape> {
    const SAMPLES: [u32; 6] = [1, 2, 4, 8, 16, 32];
    const EDGES: [u32; 5] = [32, 48, 64, 96, 128];
    // 7 and 30 have no common divisor, so that this visits each cell of the grid once, neighbours far apart.
    let cell = |i: usize| i * 7 % 30;
    (0..n.min(30)).map(move |i| StepShape::new(SAMPLES[cell(i) % 6], EDGES[cell(i) / 6]))
}

/// Returns a step of 32 samples that ran in micro-batches of this rung, with the peak that [`observation`] gives it.
pub fn step_done(step: u64, rung: Knobs) -> StepDone {
    let Observation { resident, peak, .. } = observation(rung.shape());
    // Ids of up to six digits, out of order as after a shuffle.
    let ids: Vec<_> =
        (0..EFFECTIVE_BATCH_SIZE).map(|i| (step * EFFECTIVE_BATCH_SIZE + i) * 514_229 % 832_000).collect();
    let chunks = ids.chunks(rung.micro_batch_size.max(1) as usize);
    StepDone {
        step,
        epoch: step * EFFECTIVE_BATCH_SIZE / 832_000,
        rung,
        micro_batches: chunks.map(|ids| MicroBatch::new(ids.to_vec(), rung.patch_size)).collect(),
        real_positions: None,
        predicted: Some(peak),
        upper: Some(peak.saturating_add(Bytes::mib(1))),
        resident,
        in_use: resident,
        reserved: peak,
        peak,
        page: Bytes::ZERO,
        packed: Bytes::ZERO,
        capacity: Bytes::gib(12),
        budget: Bytes::gib(11),
        skipped: Vec::new(),
        tasks: Vec::new(),
        loss: 0.036_182_749_1 / (1.0 + step as f64),
        gradient_norm: 0.427_193_645_2,
        learning_rate: 1.934_726e-3,
        seconds: 0.148_372_6,
        waited_seconds: None,
        supply: None,
        committed: true,
    }
}
