//! What does the guard add to a step in which nothing fails?

use std::convert::Infallible;
use std::hint::black_box;
use std::ops::Range;

use criterion::{BenchmarkId, Criterion};
use plimsoll_bench::run;
use plimsoll_guard::{Failure, Guard};
use plimsoll_types::{Bytes, Prediction};

/// An effective batch of 32 in micro-batches of 8.
const PARTS: [Range<usize>; 4] = [0..8, 8..16, 16..24, 24..32];

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("guard");
        // The bound is a constant: `predict` measures the real one.
        let bound = |part: &Range<usize>| {
            let upper = Bytes::mib(10).saturating_mul(part.len() as u64);
            Some(Prediction { expected: upper, upper })
        };
        let guard = Guard { budget: black_box(Bytes::mib(90)), predict: bound, too_much: |_| None };
        let attempt = |part| {
            black_box(part);
            Ok::<_, Failure<Infallible>>(())
        };
        group.bench_function(BenchmarkId::new("run", PARTS.len()), |b| b.iter(|| guard.run(black_box(PARTS), attempt)));
        group.finish();
    });
}
