//! How long does it take to draw a sample id?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_sampler::{EpochCursor, Permutation};

/// 13 000 images with 64 crops each; no square number, so that some ids need a second pass.
const N_SAMPLES: u64 = 832_000;

const SEED: u64 = 7;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("draw");
        permutation_at(&mut group);
        cursor_take(&mut group, 32);
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
