//! What a step costs beside a loop of Burn's own: the same samples in one part, in turn, in one process.
//!
//! `cargo bench -p plimsoll --bench overhead` prints medians, the ratio of each pair's times, and the most memory of each.

#![expect(clippy::print_stdout, reason = "a benchmark shows what it measures")]

#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../examples/image.rs"]
mod image;

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use image::{Net, images};
use plimsoll::Bytes;
use plimsoll_probe::{DeviceKind, Probe, ProbeError, open};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

const BATCHES: [usize; 3] = [32, 128, 512];
const N_PAIRS: usize = 200;
/// The first pairs draw weights and fill caches.
const N_FIRST: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    BATCHES.into_iter().try_for_each(compare)
}

/// Runs steps of a batch in turn.
fn compare(batch: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let samples = images(batch, 1);
    let (mut model, mut optimizer) = (Net::init(&device), AdamWConfig::new().init());
    let step = plimsoll::step(&device, Net::init(&device), AdamWConfig::new().init());
    let mut step = step.micro_batch(u32::try_from(batch)?).build()?;
    let (mut own, mut adopted) = (Vec::new(), Vec::new());
    let (mut own_peak, mut adopted_peak) = (Bytes::ZERO, Bytes::ZERO);
    let mut probe = open(DeviceKind::Flex, None)?;
    for turn in 0..2 * (N_FIRST + N_PAIRS) {
        let (before, start) = (begin(&mut *probe)?, Instant::now());
        // Each is the first of its pair as often as the other.
        if matches!(turn % 4, 0 | 3) {
            // A batch is made of samples that are its own.
            let loss = model.loss(&samples.clone(), &device);
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(1e-3, model, gradients);
            // A loop that shows its loss reads it.
            black_box(loss.into_scalar::<f64>());
            own.push(start.elapsed().as_secs_f64());
            own_peak = own_peak.max(peak(&*probe, before)?);
        } else {
            let done = step.run(&samples, 1e-3, |model, part| model.loss(&part, &device))?;
            adopted.push(start.elapsed().as_secs_f64());
            // The step has begun a mark of its own.
            adopted_peak = adopted_peak.max(done.peak.saturating_sub(before)).max(peak(&*probe, before)?);
        }
    }
    let [own, adopted] = [own, adopted].map(|it| it[N_FIRST..].to_vec());
    let ratios: Vec<_> = adopted.iter().zip(&own).map(|(adopted, own)| adopted / own).collect();
    let [own, adopted] = [own, adopted].map(|it| median(it) * 1e3);
    println!(
        "batches of {batch}: burn {own:.3} ms and {own_peak} beside the model, plimsoll {adopted:.3} ms and {adopted_peak}, \
         median of the ratios of {N_PAIRS} pairs {:.4}",
        median(ratios)
    );
    Ok(())
}

/// Begins a high-water mark, and returns what is in use.
fn begin(probe: &mut dyn Probe) -> Result<Bytes, ProbeError> {
    probe.reset_peak()?;
    Ok(probe.read()?.in_use)
}

/// Returns the high-water mark above what was in use.
fn peak(probe: &dyn Probe, before: Bytes) -> Result<Bytes, ProbeError> {
    Ok(probe.read()?.peak.saturating_sub(before))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
