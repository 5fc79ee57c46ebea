//! How long does a line of the log take to write, and a log to read?

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use plimsoll_bench::{run, step_done};
use plimsoll_monitor::{decode, encode};
use plimsoll_types::{Event, Knobs};

/// Four micro-batches for the 32 samples of a step.
const RUNG: Knobs = Knobs { patch_size: 64, micro_batch_size: 8 };

const N_LINES: u64 = 1000;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("monitor");
        let event = Event::StepDone(step_done(1000, RUNG));
        group.bench_function("encode/step_done", |b| b.iter(|| encode(black_box(&event))));

        let log: String = (0..N_LINES).map(|step| encode(&Event::StepDone(step_done(step, RUNG)))).collect();
        group.throughput(Throughput::Elements(N_LINES));
        group.bench_function(BenchmarkId::new("decode", N_LINES), |b| b.iter(|| decode(black_box(&log))));
        group.finish();
    });
}
