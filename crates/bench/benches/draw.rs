//! How long does it take to draw a sample id, and to deal the samples of a step?

use std::hint::black_box;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_sampler::{EpochCursor, Permutation, Taker, deal};

/// 13 000 images with 64 crops each; no square number, so that some ids need a second pass.
const N_SAMPLES: u64 = 832_000;

const SEED: u64 = 7;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("draw");
        permutation_at(&mut group);
        cursor_take(&mut group, 32);
        for n_takers in [4, 64, 1024] {
            deal_step(&mut group, n_takers);
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

/// A step of eight samples for each of so many devices, no two of them equal.
fn deal_step(group: &mut BenchmarkGroup<'_, WallTime>, n_takers: u64) {
    let costs: Vec<_> = (0..8 * n_takers).map(|at| 8 + at * 7919 % 4089).collect();
    let taker = |at| Taker { weight: (12 << 30) + at * 7919 % (68 << 30), largest: 4_096 };
    let takers: Vec<_> = (0..n_takers).map(taker).collect();
    group.throughput(Throughput::Elements(8 * n_takers));
    group
        .bench_function(BenchmarkId::new("deal", n_takers), |b| b.iter(|| deal(black_box(&costs), black_box(&takers))));
}
