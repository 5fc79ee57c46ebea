//! What does the guard add to a step in which nothing fails?

use std::hint::black_box;
use std::ops::Range;

use criterion::{BenchmarkId, Criterion};
use plimsoll_bench::run;
use plimsoll_guard::{Ahead, Guard, Happened, Now};
use plimsoll_types::Bytes;

/// An effective batch of 32 in micro-batches of 8.
const PARTS: [Range<usize>; 4] = [0..8, 8..16, 16..24, 24..32];

/// Runs all parts, and returns how many ran.
fn step(guard: &mut Guard) -> usize {
    let mut now = guard.begin(black_box(PARTS), black_box(Bytes::mib(90)), true);
    loop {
        now = guard.on(match now {
            // The bound is a constant: `predict` measures the real one.
            Now::Look(part) => Happened::Seen(Ahead {
                upper: Some(Bytes::mib(10).saturating_mul(part.len() as u64)),
                ..Ahead::default()
            }),
            Now::Run(part) => {
                black_box(part);
                Happened::Ran
            }
            _ => return guard.ran().len(),
        });
    }
}

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("guard");
        let mut guard = Guard::new(false);
        group.bench_function(BenchmarkId::new("run", PARTS.len()), |b| b.iter(|| step(&mut guard)));
        group.finish();
    });
}
