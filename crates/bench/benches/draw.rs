//! How long does it take to draw a sample id, and to deal the samples of a step?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_sampler::{BatchToDeal, EpochCursor, Permutation, deal_batches};

/// 13 000 images with 64 crops each; no square number, so that some ids need a second pass.
const N_SAMPLES: u64 = 832_000;

const SEED: u64 = 7;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("draw");
        permutation_at(&mut group);
        cursor_take(&mut group, 32);
        for n_devices in [4, 64, 1024] {
            deal_step(&mut group, n_devices);
        }
        group.finish();
    });
}

fn permutation_at(group: &mut BenchmarkGroup<'_, WallTime>) {
    let permutation = Permutation::new(N_SAMPLES, SEED, 0);
    let mut next = 0;
    group.throughput(Throughput::Elements(1));
    group.bench_function("permutation_at", |b| {
        b.iter(|| {
            next = (next + 1) % N_SAMPLES;
            permutation.at(black_box(next))
        });
    });
}

fn cursor_take(group: &mut BenchmarkGroup<'_, WallTime>, n_ids: u64) {
    let mut cursor = EpochCursor::try_new(N_SAMPLES, SEED).expect("there are samples");
    group.throughput(Throughput::Elements(n_ids));
    group.bench_function(BenchmarkId::new("cursor_take", n_ids), |b| b.iter(|| cursor.take(black_box(n_ids))));
}

/// A step of two full micro-batches of 24 samples for each of so many devices, in batches of eight lengths; no two devices are alike.
fn deal_step(group: &mut BenchmarkGroup<'_, WallTime>, n_devices: u32) {
    let weights: Vec<_> = (0..n_devices).map(|at| f64::from(1_000 + at * 7919 % 2_000)).collect();
    let batch = |at: u32| {
        let limits = (0..n_devices).map(|device| (16 + device % 17) / (1 + at / 2)).collect();
        BatchToDeal { n_samples: 6 * n_devices, length: 256 * (1 + at), multiple_of: 1, limits }
    };
    let batches: Vec<_> = (0..8).map(batch).collect();
    group.throughput(Throughput::Elements(48 * u64::from(n_devices)));
    let id = BenchmarkId::new("deal_batches", n_devices);
    group.bench_function(id, |b| b.iter(|| deal_batches(black_box(&weights), None, black_box(&batches))));
}
