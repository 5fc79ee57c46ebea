//! Several tasks, and samples that do not fit.

use plimsoll_sampler::{
    BatchPlanner, Batches, Lattice, Oversize, PaddedBudget, PlanConfig, SampleIndex, StepPlanner, StepSize, TaskMix,
    mates_kept, task_entropy_ratio,
};
use plimsoll_types::Fraction;

use crate::common::{Numbers, images_and_tokens};

fn mix(weight: f64) -> TaskMix {
    TaskMix { diversity_weight: Fraction::try_new(weight).unwrap(), ..TaskMix::default() }
}

/// What is padded on each axis, the entropy of tasks in groups of eight batches, and the share of mates kept.
fn planned(n: usize, config: PlanConfig<2>) -> (Vec<f64>, f64, f64) {
    let (lengths, tasks) = images_and_tokens(n);
    let index = SampleIndex::try_new(lengths).unwrap().with_tasks(tasks.clone()).unwrap();
    let planner = BatchPlanner::try_new(index, PaddedBudget([128, 16_384]), config).unwrap();
    let batches = planner.plan_epoch(1);
    let report = planner.report(1, &batches);
    assert_eq!((report.over_budget, report.n_samples), (0, n as u64));
    (report.waste, task_entropy_ratio(&batches, &tasks, 8).unwrap(), report.mates_kept.kept)
}

#[test]
fn two_axes_are_hardly_padded_while_mates_part_and_groups_of_batches_hold_all_tasks() {
    let (waste, entropy, kept) = planned(1_000_000, PlanConfig::default());
    assert!(waste.iter().all(|waste| *waste < 0.01), "{waste:?}");
    assert!(entropy >= 0.95 && kept <= 0.034, "{entropy} {kept}");
}

#[test]
fn a_tenth_of_the_batches_is_padded_more_and_keeps_more_mates() {
    let (waste, entropy, kept) = planned(100_000, PlanConfig::default());
    assert!(waste.iter().all(|waste| *waste < 0.043), "{waste:?}");
    assert!(entropy >= 0.95 && kept <= 0.049, "{entropy} {kept}");
}

#[test]
fn two_axes_without_mixing_of_neighbours_pad_next_to_nothing() {
    let plan = |weight| {
        let config = PlanConfig { tasks: mix(weight), most_mates_kept: Fraction::ONE, ..PlanConfig::default() };
        planned(100_000, config)
    };
    let (waste, entropy, _) = plan(0.5);
    assert!(waste.iter().all(|waste| *waste < 0.01) && entropy >= 0.9, "{waste:?} {entropy}");
    let (by_length, without, _) = plan(0.0);
    assert!(without < entropy && by_length[1] <= waste[1], "{without} {entropy}");
}

#[test]
fn tasks_of_one_cell_are_mixed_whatever_the_lengths() {
    let lengths: Vec<u32> = (0..2_000).map(|id| id * 37 % 64 + 1).collect();
    let tasks: Vec<u16> = (0..2_000).map(|id| u16::from(id * 7 % 10 < 3)).collect();
    let index = SampleIndex::try_new([lengths]).unwrap().with_tasks(tasks.clone()).unwrap();
    let lattice = Lattice::try_new([vec![64]]).unwrap();
    let config = PlanConfig { tasks: mix(0.01), lattice, ..PlanConfig::default() };
    let batches = BatchPlanner::try_new(index, PaddedBudget([64 * 20]), config).unwrap().plan_epoch(0);
    assert_eq!(batches.len(), 100);
    for batch in batches.iter() {
        // Three tenths of 20.
        assert_eq!(batch.ids.iter().filter(|id| tasks[**id as usize] == 1).count(), 6);
    }
}

#[test]
fn mates_part_on_two_axes_as_they_do_on_one() {
    let (lengths, _) = images_and_tokens(50_000);
    let plan = |most_mates_kept| {
        let index = SampleIndex::try_new(lengths.clone()).unwrap();
        let config = PlanConfig { most_mates_kept, ..PlanConfig::default() };
        let planner = BatchPlanner::try_new(index, PaddedBudget([128, 16_384]), config).unwrap();
        let (here, next) = (planner.plan_epoch(0), planner.plan_epoch(1));
        (mates_kept(&here, &next), planner.report(0, &here).waste)
    };
    let default = PlanConfig::<2>::default().most_mates_kept;
    assert_eq!(default, PlanConfig::<1>::default().most_mates_kept);
    for parted in [plan(Fraction::ZERO), plan(default)] {
        let all = plan(Fraction::ONE);
        assert!(parted.0 < 0.2 && all.0 > 0.4, "{all:?} {parted:?}");
        assert!(parted.1.iter().all(|waste| *waste < 0.05), "{parted:?}");
    }
}

/// 400 samples of task 0, 300 of task 1 and 300 of task 2, of lengths that overlap.
fn three_tasks() -> SampleIndex<1> {
    let tasks: Vec<u16> = (0..1000).map(|id| [0, 0, 0, 0, 1, 1, 1, 2, 2, 2][id % 10]).collect();
    let lengths: Vec<u32> =
        (0..1000).map(|id: u32| id * 7919 % 101 + 50 + 20 * u32::from(tasks[id as usize])).collect();
    SampleIndex::try_new([lengths]).unwrap().with_tasks(tasks).unwrap()
}

fn plan(config: PlanConfig<1>) -> (Batches<1>, BatchPlanner<PaddedBudget<1>, 1>) {
    let planner = BatchPlanner::try_new(three_tasks(), PaddedBudget([4_000]), config).unwrap();
    (planner.plan_epoch(0), planner)
}

fn counts(index: &SampleIndex<1>, ids: &[u32]) -> [f64; 3] {
    let mut counts = [0.0; 3];
    for id in ids {
        counts[usize::from(index.tasks().unwrap()[*id as usize])] += 1.0;
    }
    counts
}

#[test]
fn balanced_batches_have_the_shares_of_the_tasks() {
    let (batches, planner) = plan(PlanConfig { tasks: mix(1.0), ..PlanConfig::default() });
    for batch in batches.iter() {
        let n = batch.ids.len() as f64;
        for (count, share) in counts(planner.index(), batch.ids).into_iter().zip([0.4, 0.3, 0.3]) {
            assert!((count - share * n).abs() <= 1.0, "{count} of {n} for {share}");
        }
    }
}

#[test]
fn more_weight_on_diversity_means_more_of_it_and_more_padding() {
    let at = |weight| {
        let (batches, planner) = plan(PlanConfig { tasks: mix(weight), ..PlanConfig::default() });
        let tasks = planner.index().tasks().unwrap();
        (task_entropy_ratio(&batches, tasks, 1).unwrap(), planner.report(0, &batches).waste[0])
    };
    let [fit, default, balanced] = [0.0, 0.5, 1.0].map(at);
    assert!(fit.0 < balanced.0 && default.0 <= balanced.0, "{fit:?} {default:?} {balanced:?}");
    assert!(default.1 < fit.1 + 0.004 && balanced.1 > fit.1 + 0.004, "{fit:?} {default:?} {balanced:?}");
}

#[test]
fn wanted_shares_hold_until_a_task_has_no_more_samples() {
    let tasks = TaskMix { shares: Some(vec![0.2, 0.2, 0.6]), ..mix(1.0) };
    let (batches, planner) = plan(PlanConfig { tasks, window: Some(100), ..PlanConfig::default() });
    // The 300 samples of task 2 last for the first half of the epoch.
    let plans = planner.task_plans().unwrap();
    assert!((plans[2].lasts.get() - 0.5).abs() < 1e-9 && plans[0].lasts == Fraction::ONE, "{plans:?}");
    let ids: Vec<u32> = batches.iter().flat_map(|batch| batch.ids.to_vec()).collect();
    let first = counts(planner.index(), &ids[..300]);
    assert!(first.iter().zip([60.0, 60.0, 180.0]).all(|(count, wanted)| (count - wanted).abs() < 20.0), "{first:?}");
    let last = counts(planner.index(), &ids[700..]);
    assert!(last[2] < 1.0 && last[0] > 0.0, "{last:?}");
}

/// 12 000 samples in a lattice: four tenths of task 0, which are short, and three of each of the others.
fn overlapping() -> SampleIndex<1> {
    let mut numbers = Numbers::new(9);
    let tasks: Vec<u16> = (0..12_000).map(|id| [0, 0, 0, 0, 1, 1, 1, 2, 2, 2][id % 10]).collect();
    let mut length = |task: &u16| numbers.log_normal([60.0, 150.0, 150.0][usize::from(*task)], 0.5, 8, 512);
    let lengths: Vec<u32> = tasks.iter().map(&mut length).collect();
    SampleIndex::try_new([lengths]).unwrap().with_tasks(tasks).unwrap()
}

/// What steps of 256 samples hold of each task in an epoch.
fn composition(tasks: TaskMix, lattice: Lattice<1>) -> Vec<[f64; 3]> {
    let config = PlanConfig { tasks, lattice, seed: 3, ..PlanConfig::default() };
    let planner = BatchPlanner::try_new(overlapping(), PaddedBudget([4_096]), config).unwrap();
    let mut steps = StepPlanner::try_new(&planner, StepSize::Samples(256)).unwrap();
    let mut all = Vec::new();
    loop {
        let step = steps.next_step();
        let ids = step.batches.iter().flat_map(|batch| &batch.ids).map(|id| u32::try_from(*id).unwrap());
        all.push(counts(planner.index(), &ids.collect::<Vec<_>>()));
        if step.ends_epoch {
            return all;
        }
    }
}

#[test]
fn steps_have_the_wanted_shares_with_the_default_window() {
    let lattice = Lattice::try_new([vec![32, 64, 96, 128, 192, 256, 384, 512]]).unwrap();
    for (homogeneous, lattice) in [(false, lattice.clone()), (false, Lattice::default()), (true, lattice)] {
        let shares = [0.2, 0.2, 0.6];
        let tasks = TaskMix { shares: Some(shares.to_vec()), homogeneous, ..TaskMix::default() };
        let steps = composition(tasks, lattice);
        // The 3 600 samples of task 2 last for 6 000 of 12 000: 23 steps.
        let (mut so_far, mut late) = ([0.0; 3], 0.0);
        for (at, step) in steps.iter().enumerate() {
            let most_off = step.iter().zip(shares).map(|(n, share)| (n - 256.0 * share).abs()).fold(0.0, f64::max);
            for (sum, n) in so_far.iter_mut().zip(step) {
                *sum += n;
            }
            if at < 22 {
                let total: f64 = so_far.iter().sum();
                let drift = so_far.iter().zip(shares).map(|(n, share)| (n - total * share).abs()).fold(0.0, f64::max);
                // Batches of one task are as large as 128.
                assert!(most_off <= if homogeneous { 128.0 } else { 64.0 }, "step {at} has {step:?}");
                assert!(drift <= 128.0, "after step {at}: {so_far:?}");
            }
            late += if at < 24 { 0.0 } else { step[2] };
        }
        // A partial batch comes into the next window.
        assert!(late < 64.0, "{late}");
    }
}

#[test]
fn shares_are_refused_unless_they_sum_to_one() {
    let with = |shares: &[f64], normalize_shares| {
        let tasks = TaskMix { shares: Some(shares.to_vec()), normalize_shares, ..TaskMix::default() };
        let config = PlanConfig { tasks, ..PlanConfig::default() };
        BatchPlanner::try_new(three_tasks(), PaddedBudget([4_000]), config)
    };
    let message =
        "plan batches: the task shares sum to 1.5, not to 1; set `normalize_shares` to divide them by their sum";
    assert_eq!(with(&[0.5, 0.5, 0.5], false).unwrap_err().to_string(), message);
    assert!(with(&[0.5, 0.5, 0.5], true).is_ok());
    let message = "plan batches: there are 2 task shares for 3 tasks";
    assert_eq!(with(&[0.5, 0.5], false).unwrap_err().to_string(), message);
    // A fourth task without samples is left out, and said to be.
    let planner = with(&[0.25, 0.25, 0.25, 0.25], false).unwrap();
    let plans = planner.task_plans().unwrap();
    assert_eq!((plans.len(), plans[3].n_samples, plans[3].lasts), (4, 0, Fraction::ZERO));
    assert_eq!(planner.plan_epoch(0).n_samples(), 1000);
}

#[test]
fn the_safe_batch_size_of_a_task_is_that_of_its_longest_sample() {
    let index = SampleIndex::try_new([[10, 20, 50]]).unwrap().with_tasks([0, 0, 2]).unwrap();
    let planner = BatchPlanner::try_new(index, PaddedBudget([100]), PlanConfig::default()).unwrap();
    assert_eq!(planner.safe_batch_sizes(), [5, 0, 2]);
}

fn oversized(oversize: Oversize) -> Result<BatchPlanner<PaddedBudget<1>, 1>, String> {
    let index = SampleIndex::try_new([[10, 1_000_000, 50, 101]]).unwrap();
    let config = PlanConfig { oversize, ..PlanConfig::default() };
    BatchPlanner::try_new(index, PaddedBudget([100]), config).map_err(|error| error.to_string())
}

#[test]
fn a_sample_that_does_not_fit_alone_is_refused_by_id() {
    let message = "plan batches: sample 1 has length 1000000 on axis 0, at most 100 fits even alone";
    assert_eq!(oversized(Oversize::Refuse).unwrap_err(), message);
}

#[test]
fn a_sample_that_does_not_fit_alone_is_skipped_and_counted() {
    let planner = oversized(Oversize::Skip).unwrap();
    let batches = planner.plan_epoch(0);
    let mut ids: Vec<u32> = batches.iter().flat_map(|batch| batch.ids.to_vec()).collect();
    ids.sort_unstable();
    let report = planner.report(0, &batches);
    assert_eq!((ids, report.skipped, report.truncated, planner.n_planned()), (vec![0, 2], 2, 0, 2));
    assert_eq!(planner.oversize().collect::<Vec<_>>(), [(1, [1_000_000]), (3, [101])]);
}

#[test]
fn a_sample_that_does_not_fit_alone_is_cut_and_counted() {
    let planner = oversized(Oversize::Truncate).unwrap();
    let batches = planner.plan_epoch(0);
    let report = planner.report(0, &batches);
    assert_eq!((report.n_samples, report.truncated, report.over_budget), (4, 2, 0));
    assert!(batches.iter().all(|batch| batch.longest[0] <= 100));
    assert!(report.waste[0] >= 0.0);
}

#[test]
fn samples_that_are_cut_to_one_length_are_mixed_as_samples_of_one_length() {
    let index = SampleIndex::try_new([(0..30_000).map(|id| 1_001 + id * 7_919 % 3_000).collect::<Vec<u32>>()]).unwrap();
    let rule = |[length]: [u32; 1]| if length <= 1_000 { 20 } else { 0 };
    let config = PlanConfig { oversize: Oversize::Truncate, ..PlanConfig::default() };
    let planner = BatchPlanner::try_new(index, rule, config).unwrap();
    let (here, next) = (planner.plan_epoch(0), planner.plan_epoch(1));
    assert_eq!(here.len(), 1_500);
    assert!(mates_kept(&here, &next) < 0.002);
}

#[test]
fn a_budget_that_nothing_fits_into_is_an_error() {
    let index = SampleIndex::try_new([[10, 20]]).unwrap();
    for oversize in [Oversize::Skip, Oversize::Truncate] {
        let config = PlanConfig { oversize, ..PlanConfig::default() };
        let error = BatchPlanner::try_new(index.clone(), PaddedBudget([0]), config).unwrap_err();
        assert_eq!(error.to_string(), "plan batches: none of 2 samples fits even alone");
    }
}
