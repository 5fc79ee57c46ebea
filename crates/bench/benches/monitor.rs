//! How long does it take to record a step, and a log to read?

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use plimsoll_bench::run;
use plimsoll_monitor::{Colors, Exposition, History, Progress, TensorBoard, View, decode, encode_into};
use plimsoll_proof::step_done;
use plimsoll_types::{Bytes, Event, Knobs};

/// Four micro-batches for the 32 samples of a step.
const RUNG: Knobs = Knobs { patch_size: 64, micro_batch_size: 8 };

const N_LINES: u64 = 1000;

fn main() {
    run(|criterion: &mut Criterion| {
        record(criterion);
        let mut group = criterion.benchmark_group("monitor");
        let mut log = Vec::new();
        for step in 0..N_LINES {
            encode_into(&mut log, &Event::StepDone(step_done(step, RUNG)));
        }
        let log = String::from_utf8(log).expect("lines are text");
        group.throughput(Throughput::Elements(N_LINES));
        group.bench_function(BenchmarkId::new("decode", N_LINES), |b| b.iter(|| decode(black_box(&log))));
        group.finish();
    });
}

/// What a step costs in the log, at the endpoint of Prometheus and in an event file, without the writes themselves.
fn record(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    let event = Event::StepDone(step_done(1000, RUNG));
    let mut line = Vec::new();
    group.bench_function("log", |b| {
        b.iter(|| {
            line.clear();
            encode_into(&mut line, black_box(&event));
        });
    });
    let mut exposition = Exposition::default();
    group.bench_function("prometheus", |b| b.iter(|| exposition.hear(black_box(&event))));
    let mut records = TensorBoard::default();
    group.bench_function("tensorboard", |b| b.iter(|| records.hear(black_box(&event), 1.5).len()));
    let (mut view, mut history) = (View::default(), History::default());
    group.bench_function("view", |b| b.iter(|| view.hear(black_box(&event))));
    let progress = Progress::new(1000, RUNG, Bytes::mib(100), "pixels", None);
    group.bench_function("view/lines", |b| b.iter(|| view.lines(black_box(&progress), 80, Colors::On)));
    group.bench_function("history", |b| b.iter(|| history.hear(black_box(&event))));
    group.bench_function("exposition/to_text", |b| b.iter(|| exposition.to_text()));
    group.finish();
}
