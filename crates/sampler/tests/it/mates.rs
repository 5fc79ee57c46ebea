//! How many mates may be kept, can be, and are.

use plimsoll_sampler::{BatchPlanner, Lattice, Objective, PaddedBudget, PlanConfig, PlanReport, SampleIndex, TaskMix};
use plimsoll_types::Fraction;

use crate::common::{Numbers, chats, images_and_tokens, speech};

/// Plans an epoch; it keeps no more mates than is said to be reachable.
#[track_caller]
fn check<const AXES: usize>(index: SampleIndex<AXES>, budget: [u64; AXES], config: PlanConfig<AXES>) -> PlanReport {
    let n = index.n_samples();
    let planner = BatchPlanner::try_new(index, PaddedBudget(budget), config).unwrap();
    let report = planner.report(3, &planner.plan_epoch(3));
    let mates = report.mates_kept;
    assert!(mates.kept <= mates.reachable.get() + 1e-9, "{n} samples, {} batches: {mates:?}", report.n_batches);
    assert_eq!(mates.wanted, PlanConfig::<AXES>::default().most_mates_kept);
    report
}

fn one_axis(lengths: Vec<u32>) -> SampleIndex<1> {
    SampleIndex::try_new([lengths]).unwrap()
}

/// So many tasks of samples of all lengths.
fn with_tasks(index: SampleIndex<1>, n_tasks: usize) -> SampleIndex<1> {
    let tasks: Vec<u16> = (0..index.n_samples()).map(|id| u16::try_from(id % n_tasks).unwrap()).collect();
    index.with_tasks(tasks).unwrap()
}

const SIZES: [usize; 8] = [100, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

#[test]
fn an_epoch_on_one_axis_keeps_no_more_mates_than_is_said() {
    for n in SIZES {
        check(one_axis(chats(n)), [32_768], PlanConfig::default());
        check(one_axis(speech(n)), [60_000], PlanConfig::default());
    }
}

#[test]
fn an_epoch_on_two_axes_keeps_no_more_mates_than_is_said() {
    for n in [200, 1_000, 5_000, 20_000, 60_000, 150_000] {
        let (lengths, tasks) = images_and_tokens(n);
        let index = SampleIndex::try_new(lengths).unwrap();
        check(index.clone(), [128, 16_384], PlanConfig::default());
        let edges = [vec![1, 2, 3, 4, 6, 8], (1..=16).map(|edge| 128 * edge).collect()];
        let config = PlanConfig { lattice: Lattice::try_new(edges).unwrap(), ..PlanConfig::default() };
        check(index.clone(), [128, 16_384], config);
        check(index.with_tasks(tasks).unwrap(), [128, 16_384], PlanConfig::default());
    }
}

#[test]
fn what_is_said_to_be_reachable_is_no_guess() {
    // A third more than is kept, at most, where neighbours are mixed.
    let near = |report: PlanReport| {
        let mates = report.mates_kept;
        assert!(mates.reachable.get() <= 1.34 * mates.kept, "{mates:?}");
    };
    near(check(one_axis(chats(8_000)), [32_768], PlanConfig::default()));
    near(check(one_axis(speech(100_000)), [60_000], PlanConfig::default()));
    for n in [20_000, 100_000, 600_000] {
        near(check(SampleIndex::try_new(images_and_tokens(n).0).unwrap(), [128, 16_384], PlanConfig::default()));
    }
}

#[test]
fn three_axes_say_what_they_keep_too() {
    let mut numbers = Numbers::new(8);
    let mut axis = |most: u32| (0..50_000).map(|_| numbers.log_normal(f64::from(most) / 4.0, 0.5, 1, most)).collect();
    let index = SampleIndex::<3>::try_new([axis(4), axis(64), axis(1_024)] as [Vec<u32>; 3]).unwrap();
    let report = check(index, [64, 800, 16_384], PlanConfig::default());
    assert!(report.mates_kept.reachable < Fraction::ONE, "{report:?}");
}

#[test]
fn batches_of_one_task_are_mixed_as_well_as_others() {
    let homogeneous = TaskMix { homogeneous: true, ..TaskMix::default() };
    for n in SIZES {
        let config = PlanConfig { tasks: homogeneous.clone(), ..PlanConfig::default() };
        check(with_tasks(one_axis(chats(n)), 5), [32_768], config.clone());
        check(with_tasks(one_axis(speech(n)), 3), [60_000], config);
    }
    // A thousand batches of each task.
    let lengths: Vec<u32> = (0..50_000u32).map(|id| 1 + id.wrapping_mul(2_654_435_761) % 1_000).collect();
    let config = PlanConfig { tasks: homogeneous, ..PlanConfig::default() };
    let report = check(with_tasks(one_axis(lengths), 5), [5_000], config);
    assert!(report.mates_kept.kept <= 0.034 && report.waste[0] < 0.04, "{report:?}");
}

#[test]
fn windows_of_tasks_with_shares_say_what_they_keep() {
    let shares = TaskMix { shares: Some(vec![0.4, 0.1, 0.1, 0.2, 0.2]), ..TaskMix::default() };
    for window in [None, Some(3_000)] {
        let config = PlanConfig { tasks: shares.clone(), window, ..PlanConfig::default() };
        check(with_tasks(one_axis(chats(10_000)), 5), [32_768], config.clone());
        check(with_tasks(one_axis(speech(10_000)), 5), [60_000], config);
    }
}

#[test]
fn every_objective_says_what_it_keeps() {
    for n in SIZES {
        let objective = Objective::LeastTime { batch_overhead: 500.0 };
        let config = PlanConfig { objective, ..PlanConfig::default() };
        check(one_axis(chats(n)), [32_768], config.clone());
        check(one_axis(speech(n)), [60_000], config);
    }
}
