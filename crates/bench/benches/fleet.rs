//! How long do threads take to agree, to add what each has, and to take over what the first has?

use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_fleet::{Fleet, InProcess};

/// What a step agrees on: its samples, whether it failed, and which it is.
const AGREED: [u64; 3] = [32, 0, 1_000];

/// Values of a bias, of a small model and of the gradients of a transformer of 40 MB.
const SIZES: [usize; 3] = [1_000, 1_000_000, 10_000_000];

fn main() {
    run(|criterion: &mut Criterion| {
        for n_ranks in [2, 4] {
            let mut group = criterion.benchmark_group(format!("fleet_of_{n_ranks}"));
            // The largest takes tens of milliseconds.
            group.sample_size(10);
            agree(&mut group, n_ranks);
            for n_values in SIZES {
                sum(&mut group, n_ranks, n_values);
                broadcast(&mut group, n_ranks, 4 * n_values);
            }
            group.finish();
        }
    });
}

fn agree(group: &mut BenchmarkGroup<'_, WallTime>, n_ranks: u32) {
    group.throughput(Throughput::Elements(1));
    group.bench_function("agree", |b| {
        b.iter_custom(|n_times| {
            together(n_ranks, n_times, || |fleet: &mut InProcess| drop(fleet.agree(&AGREED).expect("all do")))
        });
    });
}

fn sum(group: &mut BenchmarkGroup<'_, WallTime>, n_ranks: u32, n_values: usize) {
    group.throughput(Throughput::Elements(n_values as u64));
    group.bench_function(BenchmarkId::new("sum", n_values), |b| {
        b.iter_custom(|n_times| {
            together(n_ranks, n_times, || {
                let mut values = vec![0.0; n_values];
                move |fleet: &mut InProcess| fleet.sum(&mut values).expect("all do")
            })
        });
    });
}

fn broadcast(group: &mut BenchmarkGroup<'_, WallTime>, n_ranks: u32, n_bytes: usize) {
    group.throughput(Throughput::Bytes(n_bytes as u64));
    group.bench_function(BenchmarkId::new("broadcast", n_bytes), |b| {
        b.iter_custom(|n_times| {
            together(n_ranks, n_times, || {
                let mut bytes = vec![0; n_bytes];
                move |fleet: &mut InProcess| fleet.broadcast(&mut bytes).expect("all do")
            })
        });
    });
}

/// Returns how long the slowest of so many threads takes to do something so many times with the others.
fn together<Work: FnMut(&mut InProcess)>(n_ranks: u32, n_times: u64, make: impl Fn() -> Work + Sync) -> Duration {
    let make = &make;
    let rank = |mut fleet: InProcess| {
        let mut work = make();
        // Pages are there, and all have come.
        work(&mut fleet);
        let start = Instant::now();
        (0..n_times).for_each(|_| work(&mut fleet));
        start.elapsed()
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = InProcess::start(n_ranks).into_iter().map(|it| scope.spawn(move || rank(it))).collect();
        ranks.into_iter().map(|it| it.join().expect("no rank panics")).max().unwrap_or_default()
    })
}
