//! Plans of any lengths, budgets and settings: each sample comes once, and no batch is above its budget.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_sampler::{BatchPlanner, Oversize, PaddedBudget, PlanConfig, SampleIndex, TaskMix};

#[derive(Arbitrary, Debug)]
struct Case {
    budget: u16,
    seed: u64,
    epoch: u64,
    window: Option<u16>,
    multiple_of: u8,
    drop_last: bool,
    skips: bool,
    homogeneous: bool,
    /// Length and task of each sample.
    samples: Vec<(u16, u8)>,
}

fuzz_target!(|case: Case| limited(|| {
    let lengths: Vec<u32> = case.samples.iter().map(|it| it.0.into()).collect();
    let tasks: Vec<_> = case.samples.iter().map(|it| u16::from(it.1 % 4)).collect();
    let Ok(index) = SampleIndex::try_new([lengths.clone()]) else { return };
    let index = index.with_tasks(tasks).expect("a task for each sample");
    let config = PlanConfig {
        seed: case.seed,
        window: case.window.map(usize::from),
        multiple_of: case.multiple_of.into(),
        drop_last: case.drop_last,
        oversize: if case.skips { Oversize::Skip } else { Oversize::Refuse },
        tasks: TaskMix { homogeneous: case.homogeneous, ..TaskMix::default() },
        ..PlanConfig::default()
    };
    let Ok(planner) = BatchPlanner::try_new(index, PaddedBudget([case.budget.into()]), config) else { return };
    let mut seen = vec![false; lengths.len()];
    for batch in planner.batches(case.epoch) {
        assert!(batch.ids.len() as u64 * u64::from(batch.cell[0]) <= u64::from(case.budget), "{batch:?}");
        for id in batch.ids {
            let at = usize::try_from(id).expect("ids are places");
            assert!(lengths[at] <= batch.cell[0] && !std::mem::replace(&mut seen[at], true), "sample {at}");
        }
    }
    let n_seen = seen.iter().filter(|it| **it).count();
    assert!(case.drop_last || n_seen == planner.n_planned(), "{n_seen} of {}", planner.n_planned());
}));
