//! The texts of an example under a budget; apart from what panics, since the heap is measured.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../probe/tests/alone/mod.rs"]
mod alone;
#[expect(dead_code, reason = "its `main` is Burn's own loop")]
#[path = "../examples/text.rs"]
mod text;

use alone::alone;
use burn::data::dataloader::DataLoader;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use plimsoll::{Batches, Bytes, Done, Limits, Step, StepBuilder, TrackingAllocator};
use plimsoll_probe::{DeviceKind, open};
use text::{Net, Text, TextBatch, TextBatcher, texts};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

const N_TEXTS: usize = 512;

/// A step of the network.
fn step_of_net() -> StepBuilder<Net> {
    let device = Device::flex().autodiff();
    device.seed(0);
    plimsoll::step(&device, Net::init(&device), AdamConfig::new().init()).budget(1.0)
}

/// Trains for some epochs.
fn train(batches: &Batches<Text, TextBatch>, step: &mut Step<Net>, n_epochs: usize) -> Vec<Done> {
    let mut all = Vec::new();
    for epoch in 0..n_epochs {
        let mut n_trained = 0;
        for samples in batches.epoch(epoch) {
            let done = step.run_batches(batches, &samples.unwrap(), 1e-3, Net::loss).unwrap();
            n_trained += done.parts.iter().map(|it| it.samples.len()).sum::<usize>();
            all.push(done);
        }
        assert_eq!(n_trained, N_TEXTS);
    }
    all
}

/// What batches of 32 texts in any order need, as Burn makes them.
fn needed_by_fixed_batches() -> Bytes {
    let fixed = plimsoll::batches(texts(N_TEXTS), TextBatcher).build().unwrap();
    let mut step = step_of_net().micro_batch(32).build().unwrap();
    train(&fixed, &mut step, 1).iter().map(|it| it.peak).max().unwrap()
}

fn by_length() -> Batches<Text, TextBatch> {
    plimsoll::batches(texts(N_TEXTS), TextBatcher).cost(|it| it.words.len()).build().unwrap()
}

#[test]
fn at_half_of_what_fixed_batches_need_every_sample_is_trained_with() {
    let _alone = alone();
    let needed = needed_by_fixed_batches();
    let mut step = step_of_net().capacity(Bytes(needed.0 / 2)).build().unwrap();
    let done = train(&by_length(), &mut step, 4);
    assert_eq!(done.len(), 4 * N_TEXTS / 32);
    let highest = done.iter().map(|it| it.peak).max().unwrap();
    assert!(highest <= Bytes(needed.0 / 2), "{highest} of {needed}");
    assert!(done.iter().all(|it| it.failures.is_empty()));
    let mean = |steps: &[Done]| steps.iter().map(|it| it.loss).sum::<f64>() / steps.len() as f64;
    let (first, last) = (mean(&done[..16]), mean(&done[48..]));
    assert!(last < 0.6 * first, "{first} {last}");
    // The longest do not fit at once, and the shortest do.
    let n_parts: Vec<_> = done[48..].iter().map(|it| it.parts.len()).collect();
    assert!(n_parts.contains(&1) && n_parts.iter().any(|it| 1 < *it), "{n_parts:?}");
}

#[test]
fn a_loader_follows_what_the_steps_of_a_model_have_shown() {
    let _alone = alone();
    let capacity = Bytes(needed_by_fixed_batches().0 / 2);
    let device = Device::flex().autodiff();
    let (mut probe, batches) = (open(DeviceKind::Flex, None).unwrap(), by_length());
    let mut step = step_of_net().capacity(capacity).build().unwrap();
    let limits = step.limits().unwrap();
    assert_eq!((limits.most(4), limits.most(102)), (1, 1), "nothing is known yet");
    let loader = batches.loader(limits.clone(), &device);
    train(&batches, &mut step, 1);
    assert!(limits.most(102) < 32 && 32 <= limits.most(4), "{} {}", limits.most(102), limits.most(4));
    let (mut n_texts, mut n_batches) = (0, 0);
    for batch in loader.iter() {
        probe.reset_peak().unwrap();
        let batch = batch.unwrap();
        n_texts += batch.words.dims()[0];
        n_batches += 1;
        drop(step.model().loss(batch).backward());
        let peak = probe.read().unwrap().peak;
        assert!(peak <= capacity, "{peak} of {capacity}");
    }
    assert_eq!(n_texts, N_TEXTS);
    assert!(n_batches < N_TEXTS / 8, "{n_batches}");
    assert_eq!(limits.most(1 << 20), 0, "a text of a million words fits nowhere");
}
