//! What a step costs beside a loop of Burn's own: the same samples in one part, in turn, in one process.
//!
//! `cargo bench -p plimsoll --bench overhead` prints medians and the ratio of each pair's times.

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

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

const BATCH: usize = 32;
const N_PAIRS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let samples = images(BATCH, 1);
    let (mut model, mut optimizer) = (Net::init(&device), AdamWConfig::new().init());
    let step = plimsoll::step(&device, Net::init(&device), AdamWConfig::new().init());
    let mut step = step.micro_batch(u32::try_from(BATCH)?).build()?;
    let (mut own, mut adopted) = (Vec::new(), Vec::new());
    // The first pairs draw weights and fill caches.
    for pair in 0..N_PAIRS + 10 {
        let start = Instant::now();
        let loss = model.loss(&samples, &device);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-3, model, gradients);
        // A loop that shows its loss reads it.
        black_box(loss.into_scalar::<f64>());
        let middle = Instant::now();
        step.run(&samples, 1e-3, |model, part| model.loss(&part, &device))?;
        if 10 <= pair {
            own.push((middle - start).as_secs_f64());
            adopted.push(middle.elapsed().as_secs_f64());
        }
    }
    let ratios: Vec<_> = adopted.iter().zip(&own).map(|(adopted, own)| adopted / own).collect();
    let [own, adopted] = [own, adopted].map(|it| median(it) * 1e3);
    println!(
        "burn {own:.3} ms, plimsoll {adopted:.3} ms, median of the ratios of {N_PAIRS} pairs {:.4}",
        median(ratios)
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
