//! Positions of epochs, rows and streams: one that is taken goes on, and within the budget.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_sampler::{
    BatchPlanner, PackBudget, PackConfig, PackPlanner, PaddedBudget, PlanConfig, SampleIndex, StepPlanner, StepSize,
    StreamLimits, StreamPlanner,
};
use plimsoll_types::Bytes;

const BUDGET: u64 = 400;
const ROWS: PackBudget = PackBudget { rows: 4, squares: u64::MAX };
const LIMITS: StreamLimits = StreamLimits { samples: 64, bytes: Bytes::mib(1) };

fn index() -> SampleIndex<1> {
    SampleIndex::try_new([(0..500).map(|id| 1 + id * 7 % 97).collect::<Vec<u32>>()]).expect("lengths from 1")
}

static PLANNER: LazyLock<BatchPlanner<PaddedBudget<1>, 1>> = LazyLock::new(|| {
    let config = PlanConfig { window: Some(64), ..PlanConfig::default() };
    BatchPlanner::try_new(index(), PaddedBudget([BUDGET]), config).expect("a budget for each sample")
});

static PACKED: LazyLock<PackPlanner> =
    LazyLock::new(|| PackPlanner::try_new(index(), PackConfig::new(128)).expect("rows for each sample"));

fuzz_target!(|input: &[u8]| limited(|| {
    if let Some(Ok(epoch)) = serde_json::from_slice(input).ok().map(|it| PLANNER.resume(&it)) {
        for batch in epoch.take(20) {
            assert!(batch.ids.len() as u64 * u64::from(batch.cell[0]) <= BUDGET, "{batch:?}");
        }
    }
    if let Ok(position) = serde_json::from_slice(input)
        && let Ok(mut steps) = StepPlanner::resume(&PLANNER, StepSize::Samples(16), &position)
    {
        (0..5).for_each(|_| drop(steps.next_step()));
    }
    if let Some(Ok(mut epoch)) = serde_json::from_slice(input).ok().map(|it| PACKED.resume(&it)) {
        for _ in 0..20 {
            let Ok(Some(rows)) = epoch.next_batch(&ROWS) else { break };
            assert!(rows.len() <= 4);
        }
    }
    if let Ok(position) = serde_json::from_slice(input) {
        let stream = StreamPlanner::try_new(PaddedBudget([BUDGET]), PlanConfig::default(), LIMITS);
        let resumed = stream.expect("a budget for each sample").resume(&position);
        assert!(resumed.is_err() || resumed.is_ok_and(|it| it.missing().count() <= LIMITS.samples));
    }
}));
