//! Steps of networks of Burn's own layers on samples of many sizes, each step below a line.

mod nets;

use std::error::Error;
use std::process::Command;

use burn::optim::AdamWConfig;
use burn::tensor::Device;
use plimsoll::{Bytes, Features};

use crate::nets::{Attentive, Deformed, Encoder, Gated, Net, Recurrent, Sorting, UNet, Volume, Wave, WideHead};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

/// Samples of a step.
const N: usize = 16;
/// Steps under each capacity.
const N_STEPS: u32 = 60;
/// Budgets, from what steps need in parts of two, 0, to what they need in one part, 1.
const SHARES: [f64; 6] = [0.05, 0.15, 0.3, 0.5, 0.75, 0.95];

/// The least and the greatest size of its samples, and what all sizes are multiples of.
type Sizes = (u32, u32, u32);

/// Trains one of the networks, on so many threads.
type Drive = fn(&str, Sizes, Features, usize) -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().unwrap_or_else(|| "1".to_owned());
    let [linear, square, cubic] = [1, 2, 3].map(Features::powers);
    let nets: [(&str, Sizes, Features, Drive); 11] = [
        ("encoder", (8, 120, 1), square, drive::<Encoder>),
        ("attention", (8, 160, 1), square, drive::<Attentive>),
        ("LSTM", (4, 60, 1), linear, drive::<Recurrent>),
        ("GRU", (4, 60, 1), linear, drive::<Gated>),
        ("1-d convolutions", (4, 64, 1), linear, drive::<Wave>),
        ("U-Net", (16, 96, 4), square, drive::<UNet>),
        ("deformed convolution", (8, 24, 1), square, drive::<Deformed>),
        ("3-d convolutions", (8, 28, 4), cubic, drive::<Volume>),
        ("the same, by the default", (8, 28, 4), square, drive::<Volume>),
        ("sorts and pairs", (4, 60, 1), square, drive::<Sorting>),
        ("wide head", (8, 120, 4), linear, drive::<WideHead>),
    ];
    if let Some(only) = arguments.next() {
        let (name, sizes, features, drive) = nets.into_iter().find(|it| it.0 == only).ok_or("no such network")?;
        return drive(name, sizes, features, threads.parse()?);
    }
    // Each in a process of its own: what products have packed for one would stand on top of the bounds of the next.
    for (name, ..) in nets {
        Command::new(std::env::current_exe()?).args([&threads, name]).status()?;
    }
    Ok(())
}

/// Trains under six capacities, by steps of samples of one size, and of many.
fn drive<M: Net>(name: &str, sizes: Sizes, features: Features, threads: usize) -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let [two, all] = [2, N].map(|part| need::<M>((part, threads), sizes, &device));
    let (two, all) = (two?.0 as f64, all?.0 as f64);
    let (mut n, mut above, mut singles, mut failed, mut parts) = (0, 0, 0, 0, 0);
    let (mut most, mut mean) = (0.0_f64, 0.0);
    for (share, is_mixed) in SHARES.iter().flat_map(|it| [(it, false), (it, true)]) {
        let budget = two + (all - two) * share;
        let mut step = plimsoll::step(&device, M::init(&device), AdamWConfig::new().init())
            .capacity(Bytes((budget / 0.9) as u64))
            .budget(0.9)
            .features(features)
            .replicas(threads)
            .build()?;
        let mut next = random(sizes, 5 + (100.0 * share) as u64);
        for _ in 0..N_STEPS {
            let samples: Vec<u32> = if is_mixed { (0..N).map(|_| next()).collect() } else { vec![next(); N] };
            let loss = |net: &M, part: Vec<u32>| {
                let largest = part.iter().copied().max().unwrap_or(sizes.0);
                net.loss(part.len(), largest as usize, &device)
            };
            let done = step.run_beside(&samples, |it| *it, 1e-3, loss)?;
            let is_above = done.budget < done.peak;
            n += 1;
            above += u32::from(is_above);
            singles += u32::from(is_above && done.parts.iter().all(|it| it.samples.len() == 1));
            failed += done.failures.len();
            parts += done.parts.len();
            most = most.max(done.peak.share_of(done.budget));
            mean += done.peak.share_of(done.budget);
        }
    }
    let [parts, mean] = [parts as f64, mean].map(|it| it / f64::from(n));
    println!("| {name} | {n} | {above} | {singles} | {failed} | {parts:.2} | {most:.3} | {mean:.3} |");
    Ok(())
}

/// Returns what a step of samples of the greatest size needs in parts of so many, beside what so many threads keep.
fn need<M: Net>(
    (part, threads): (usize, usize),
    (_, largest, _): Sizes,
    device: &Device,
) -> Result<Bytes, Box<dyn Error>> {
    let step = plimsoll::step(device, M::init(device), AdamWConfig::new().init());
    let mut step = step.micro_batch(u32::try_from(part)?).replicas(threads).build()?;
    let mut peak = Bytes::ZERO;
    for _ in 0..2 {
        let loss = |net: &M, part: Vec<u32>| net.loss(part.len(), largest as usize, device);
        peak = peak.max(step.run_by(&[largest; N], |it| *it, 1e-3, loss)?.peak);
    }
    Ok(peak)
}

/// Draws sizes.
fn random((least, greatest, multiple): Sizes, seed: u64) -> impl FnMut() -> u32 {
    let mut random = seed * 88_172_645_463_325_252 | 1;
    move || {
        // Xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (least + (random % u64::from(greatest - least + 1)) as u32).next_multiple_of(multiple)
    }
}
