//! How long does it take to plan an epoch?

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use plimsoll_bench::run;
use plimsoll_proof::sampler::{Tasked, chats, images_and_tokens};
use plimsoll_sampler::{BatchPlanner, PackConfig, PackPlanner, PaddedBudget, PlanConfig, SampleIndex};

const N_SAMPLES: usize = 1_000_000;

/// As many as Criterion wants at least: an epoch takes 10 to 50 ms.
const N_RUNS: usize = 10;

fn main() {
    run(|criterion: &mut Criterion| {
        let mut group = criterion.benchmark_group("plan");
        group.sample_size(N_RUNS).throughput(Throughput::Elements(N_SAMPLES as u64));
        one_axis(&mut group);
        two_axes(&mut group);
        packed(&mut group);
        group.finish();
    });
}

fn one_axis(group: &mut BenchmarkGroup<'_, WallTime>) {
    let index = SampleIndex::try_new([chats(N_SAMPLES)]).expect("there are samples");
    let planner = BatchPlanner::try_new(index, PaddedBudget([32_768]), PlanConfig::default()).expect("they fit");
    group.bench_function("one_axis", |b| b.iter(|| planner.plan_epoch(black_box(0))));
}

/// Images and tokens of three tasks.
fn two_axes(group: &mut BenchmarkGroup<'_, WallTime>) {
    let Tasked { lengths, tasks } = images_and_tokens(N_SAMPLES);
    let index = SampleIndex::try_new(lengths).and_then(|it| it.with_tasks(tasks)).expect("there are samples");
    let planner = BatchPlanner::try_new(index, PaddedBudget([128, 16_384]), PlanConfig::default()).expect("they fit");
    group.bench_function("two_axes", |b| b.iter(|| planner.plan_epoch(black_box(0))));
}

fn packed(group: &mut BenchmarkGroup<'_, WallTime>) {
    let index = SampleIndex::try_new([chats(N_SAMPLES)]).expect("there are samples");
    let planner = PackPlanner::try_new(index, PackConfig::new(8_192)).expect("they fit");
    group.bench_function("packed", |b| b.iter(|| planner.plan_epoch(black_box(0))));
}
