//! What a position holds, whatever happened before it.

use plimsoll_sampler::{
    BatchPlanner, Lattice, Objective, PaddedBudget, PlanConfig, PositionError, SampleIndex, StepPlanner, StepPosition,
    StepSize, TaskMix,
};

use crate::common::{Numbers, chats, speech};

type Planner = BatchPlanner<PaddedBudget<1>, 1>;

/// The most bytes of a position, as JSON.
const MOST_BYTES: usize = 4096;

fn edges() -> Lattice<1> {
    Lattice::try_new([vec![64, 128, 256, 512, 1024, 2048, 4096]]).unwrap()
}

fn planner(index: &SampleIndex<1>, budget: u64, config: &PlanConfig<1>) -> Planner {
    BatchPlanner::try_new(index.clone(), PaddedBudget([budget]), config.clone()).unwrap()
}

fn number(numbers: &mut Numbers, below: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 0")]
    let number = (numbers.uniform() * below) as u64;
    number
}

/// Goes through an epoch with so many changes of the rule and a few resumptions; every sample comes once, and every
/// position is small.
#[track_caller]
fn check_changes(index: &SampleIndex<1>, config: &PlanConfig<1>, (least, most): (u64, u64), n_changes: u64) {
    let size = StepSize::Samples(256);
    let n = index.n_samples();
    let every = (n as u64 / 256 / n_changes).max(1);
    let mut numbers = Numbers::new(5);
    let mut budget = least;
    let mut steps = StepPlanner::try_new(&planner(index, budget, config), size).unwrap();
    let (mut seen, mut done, mut largest) = (vec![false; n], 0, 0);
    for step_idx in 0u64.. {
        let step = steps.next_step();
        assert_eq!(step.epoch, 0);
        for batch in &step.batches {
            assert!(batch.ids.len() as u64 * u64::from(batch.cell[0]) <= budget, "over budget after {done} changes");
            for id in &batch.ids {
                assert!(!std::mem::replace(&mut seen[usize::try_from(*id).unwrap()], true), "{id} comes twice");
            }
        }
        if step.ends_epoch {
            break;
        }
        let changes = step_idx % every == 0;
        if changes {
            budget = least + number(&mut numbers, (most - least) as f64);
            steps.change(PaddedBudget([budget])).unwrap();
            done += 1;
        }
        if changes || number(&mut numbers, 20.0) == 0 {
            let saved = serde_json::to_string(&steps.position()).unwrap();
            largest = largest.max(saved.len());
            if number(&mut numbers, 8.0) == 0 {
                let position: StepPosition = serde_json::from_str(&saved).unwrap();
                steps = StepPlanner::resume(&planner(index, budget, config), size, &position).unwrap();
                assert_eq!(steps.position(), position);
            }
        }
    }
    assert!(seen.into_iter().all(|seen| seen), "samples are lost");
    assert!(done >= n_changes.min(n as u64 / 300), "{done} changes");
    assert!(largest <= MOST_BYTES, "{largest} bytes");
}

fn index(lengths: Vec<u32>) -> SampleIndex<1> {
    SampleIndex::try_new([lengths]).unwrap()
}

#[test]
fn hundreds_of_changes_in_an_epoch_of_one_window_keep_a_position_small() {
    let config = PlanConfig { lattice: edges(), ..PlanConfig::default() };
    check_changes(&index(chats(100_000)), &config, (4_096, 65_536), 100);
    check_changes(&index(chats(60_000)), &PlanConfig::default(), (4_096, 65_536), 100);
    check_changes(&index(speech(250_000)), &PlanConfig::default(), (4_096, 65_536), 5);
}

#[test]
fn hundreds_of_changes_in_an_epoch_of_many_windows_keep_a_position_small() {
    check_changes(&index(chats(1_000_000)), &PlanConfig::default(), (4_096, 200_000), 300);
    let config = PlanConfig { lattice: edges(), ..PlanConfig::default() };
    check_changes(&index(chats(300_000)), &config, (4_096, 200_000), 300);
}

#[test]
fn a_change_after_every_step_keeps_a_position_small() {
    // One sample in most batches, at first: what is left of a window is no few stretches of it.
    check_changes(&index(chats(20_000)), &PlanConfig::default(), (4_096, 4_500), u64::MAX);
    check_changes(&index((1..=30_000).collect()), &PlanConfig::default(), (30_000, 90_000), u64::MAX);
}

#[test]
fn changes_in_an_epoch_of_tasks_with_shares_keep_a_position_small() {
    let tasks: Vec<u16> = (0..50_000).map(|id| u16::from(id % 10 == 0) + 2 * u16::from(id % 10 > 6)).collect();
    let index = index(chats(50_000)).with_tasks(tasks).unwrap();
    let tasks = TaskMix { shares: Some(vec![0.5, 0.25, 0.25]), ..TaskMix::default() };
    let config = PlanConfig { tasks, lattice: edges(), ..PlanConfig::default() };
    check_changes(&index, &config, (4_096, 65_536), 50);
}

#[test]
fn changes_in_an_epoch_of_many_kinds_keep_a_position_small() {
    let tasks: Vec<u16> = (0..60_000).map(|id| u16::try_from(id * 7_919 % 8).unwrap()).collect();
    let chats = index(chats(60_000)).with_tasks(tasks).unwrap();
    let lattice = Lattice::try_new([(1..=1_024).map(|edge| 4 * edge).collect()]).unwrap();
    check_changes(&chats, &PlanConfig::default(), (8_192, 65_536), 10);
    check_changes(&chats, &PlanConfig { lattice, ..PlanConfig::default() }, (8_192, 65_536), 10);
}

#[test]
fn changes_of_plans_that_take_the_least_time_keep_a_position_small() {
    let objective = Objective::LeastTime { batch_overhead: 500.0 };
    let config = |lattice, window| PlanConfig { objective, lattice, window, ..PlanConfig::default() };
    check_changes(&index(chats(30_000)), &config(Lattice::default(), None), (4_096, 65_536), 30);
    check_changes(&index(chats(30_000)), &config(edges(), None), (4_096, 65_536), 30);
    check_changes(&index(chats(30_000)), &config(Lattice::default(), Some(9_000)), (4_096, 65_536), 100);
    check_changes(&index(chats(8_000)), &config(edges(), None), (4_096, 4_500), u64::MAX);
}

/// The position after some steps, and after a change of the rule if one is wanted.
fn position(index: &SampleIndex<1>, config: &PlanConfig<1>, to: Option<u64>) -> StepPosition {
    let mut steps = StepPlanner::try_new(&planner(index, 8_192, config), StepSize::Samples(100)).unwrap();
    for _ in 0..7 {
        steps.next_step();
    }
    if let Some(budget) = to {
        steps.change(PaddedBudget([budget])).unwrap();
    }
    steps.position()
}

#[track_caller]
fn refused(index: &SampleIndex<1>, budget: u64, config: &PlanConfig<1>, position: &StepPosition, what: &str) {
    let resumed = StepPlanner::resume(&planner(index, budget, config), StepSize::Samples(100), position);
    match resumed.map(drop) {
        Err(PositionError::OtherPlan { key, .. }) => assert_eq!(key, what),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_position_of_another_rule_is_refused_before_it_repeats_a_sample() {
    let (here, config) = (index(chats(5_000)), PlanConfig::default());
    let taken = position(&here, &config, None);
    refused(&here, 8_191, &config, &taken, "fingerprint of the capacity rule");
    refused(&here, 16_384, &config, &taken, "fingerprint of the capacity rule");
    let changed = position(&here, &config, Some(16_384));
    refused(&here, 8_192, &config, &changed, "fingerprint of the capacity rule");
    let steps = StepPlanner::resume(&planner(&here, 16_384, &config), StepSize::Samples(100), &changed).unwrap();
    assert_eq!(steps.position(), changed);
}

#[test]
fn a_position_of_other_lengths_or_another_configuration_is_refused() {
    let (here, config) = (index(chats(5_000)), PlanConfig::default());
    let taken = position(&here, &config, None);
    let mut lengths = chats(5_000);
    lengths[4_321] += 1;
    refused(&index(lengths), 8_192, &config, &taken, "fingerprint of the lengths");
    let tasks = here.clone().with_tasks(vec![0; 5_000]).unwrap();
    refused(&tasks, 8_192, &config, &taken, "fingerprint of the lengths");
    let other = PlanConfig { lattice: edges(), ..config };
    refused(&here, 8_192, &other, &taken, "fingerprint of the configuration");
}

#[test]
fn a_position_that_was_tampered_with_is_refused() {
    let (here, config) = (index(chats(5_000)), PlanConfig::default());
    let saved = serde_json::to_value(position(&here, &config, Some(16_384))).unwrap();
    let with = |path: &str, value: serde_json::Value| {
        let mut saved = saved.clone();
        *saved.pointer_mut(path).unwrap() = value;
        let position: StepPosition = serde_json::from_value(saved).ok()?;
        StepPlanner::resume(&planner(&here, 16_384, &config), StepSize::Samples(100), &position).ok()
    };
    assert!(with("/taken", saved["taken"].clone()).is_some());
    assert!(with("/used", 1_000_000.into()).is_none());
    assert!(with("/plan/batch", 1_000_000.into()).is_none());
    assert!(with("/plan/digest", 7.into()).is_none());
    assert!(with("/plan/left/n_drawn", 1_000_000.into()).is_none());
    assert!(with("/plan/left/taken", "AAAA".into()).is_none());
    assert!(with("/plan/left/taken", "?".into()).is_none());
    assert!(with("/plan/carried", "_____".into()).is_none());
}
