//! What every plan keeps, whatever is planned.

use std::collections::BTreeSet;

use plimsoll_sampler::{
    Batch, BatchPlanner, Batches, Lattice, Objective, PaddedBudget, PlanConfig, PlanPosition, SampleIndex, TaskMix,
};
use plimsoll_types::Fraction;
use proptest::prelude::*;

use crate::common::cases;

/// A data set with everything that can be wanted of its plan.
#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<[u32; 2]>,
    tasks: Vec<u16>,
    budget: [u64; 2],
    epoch: u64,
    config: PlanConfig<2>,
    /// Edges for a plan on the first axis only.
    edges: Vec<u32>,
}

fn task_mix() -> impl Strategy<Value = TaskMix> {
    let shares = prop::option::of(prop::collection::vec(1u32..9, 3..5));
    (shares, 0.0..=1.0, any::<bool>()).prop_map(|(shares, weight, homogeneous)| TaskMix {
        shares: shares.map(|shares| shares.into_iter().map(f64::from).collect()),
        normalize_shares: true,
        diversity_weight: Fraction::try_new(weight).unwrap(),
        homogeneous,
        ..TaskMix::default()
    })
}

fn edges() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![Just(vec![]), Just(vec![4, 9, 16, 40]), Just(vec![40])]
}

fn config() -> impl Strategy<Value = PlanConfig<2>> {
    let window = prop::option::of(1usize..200);
    let most = prop_oneof![Just(u32::MAX), 1u32..9];
    (any::<u64>(), window, 0.0..=1.0, most, (edges(), edges()), task_mix()).prop_map(
        |(seed, window, kept, most_samples, edges, tasks)| PlanConfig {
            seed,
            window,
            most_mates_kept: Fraction::try_new(kept).unwrap(),
            most_samples,
            lattice: Lattice::try_new([edges.0, edges.1]).unwrap(),
            tasks,
            ..PlanConfig::default()
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let sample = ([1u32..40, 1u32..40], 0u16..3);
    let budget = [40u64..400, 40u64..400];
    (prop::collection::vec(sample, 1..300), budget, 0u64..9, config(), edges()).prop_map(
        |(samples, budget, epoch, config, edges)| {
            let (lengths, tasks) = samples.into_iter().unzip();
            Case { lengths, tasks, budget, epoch, config, edges }
        },
    )
}

impl Case {
    fn planner(&self) -> BatchPlanner<PaddedBudget<2>, 2> {
        let axis = |axis: usize| self.lengths.iter().map(|lengths| lengths[axis]).collect::<Vec<_>>();
        let index = SampleIndex::try_new([axis(0), axis(1)]).unwrap().with_tasks(self.tasks.clone()).unwrap();
        BatchPlanner::try_new(index, PaddedBudget(self.budget), self.config.clone()).unwrap()
    }

    /// The same on the first axis only.
    fn on_one_axis(&self, objective: Objective) -> BatchPlanner<PaddedBudget<1>, 1> {
        let lengths: Vec<u32> = self.lengths.iter().map(|lengths| lengths[0]).collect();
        let index = SampleIndex::try_new([lengths]).unwrap().with_tasks(self.tasks.clone()).unwrap();
        let PlanConfig { seed, window, most_mates_kept, most_samples, tasks, .. } = self.config.clone();
        let config = PlanConfig {
            seed,
            window,
            most_mates_kept,
            most_samples,
            tasks,
            objective,
            lattice: Lattice::try_new([self.edges.clone()]).unwrap(),
            ..PlanConfig::default()
        };
        BatchPlanner::try_new(index, PaddedBudget([self.budget[0]]), config).unwrap()
    }
}

fn ids<const AXES: usize>(batches: &Batches<AXES>) -> Vec<u32> {
    batches.iter().flat_map(|batch| batch.ids.to_vec()).collect()
}

#[track_caller]
fn each_once(mut ids: Vec<u32>, n: usize) {
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..u32::try_from(n).unwrap()));
}

fn owned<const AXES: usize>(batch: Batch<'_, AXES>) -> (Vec<u32>, [u32; AXES], [u32; AXES]) {
    (batch.ids.to_vec(), batch.longest, batch.cell)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_sample_comes_once_and_no_batch_is_over_budget(case in case()) {
        let batches = case.planner().plan_epoch(case.epoch);
        each_once(ids(&batches), case.lengths.len());
        for batch in batches.iter() {
            prop_assert!(!batch.ids.is_empty() && batch.ids.len() <= case.config.most_samples as usize);
            for axis in 0..2 {
                let longest = batch.ids.iter().map(|id| case.lengths[*id as usize][axis]).max().unwrap();
                prop_assert_eq!(batch.longest[axis], longest);
                prop_assert!(batch.cell[axis] >= longest);
                prop_assert!(batch.ids.len() as u64 * u64::from(batch.cell[axis]) <= case.budget[axis]);
            }
            let tasks: BTreeSet<u16> = batch.ids.iter().map(|id| case.tasks[*id as usize]).collect();
            prop_assert!(!case.config.tasks.homogeneous || tasks.len() == 1);
        }
    }

    #[test]
    fn every_objective_keeps_the_budget_on_one_axis(case in case(), which in 0..2) {
        let objectives = [Objective::FewestBatches, Objective::LeastTime { batch_overhead: 30.0 }];
        let planner = case.on_one_axis(objectives[usize::try_from(which).unwrap()]);
        let batches = planner.plan_epoch(case.epoch);
        each_once(ids(&batches), case.lengths.len());
        let report = planner.report(case.epoch, &batches);
        prop_assert_eq!(report.over_budget, 0);
        prop_assert!(report.lower_bound <= report.n_batches);
        for batch in batches.iter() {
            let lengths = batch.ids.iter().map(|id| u64::from(case.lengths[*id as usize][0]));
            prop_assert!(batch.ids.len() as u64 * lengths.max().unwrap() <= case.budget[0]);
            prop_assert!(batch.ids.len() as u64 * u64::from(batch.cell[0]) <= case.budget[0]);
        }
    }

    #[test]
    fn a_resumed_epoch_goes_on_as_an_uninterrupted_one(case in case(), part in 0.0..=1.0) {
        let planner = case.planner();
        let whole: Vec<_> = planner.plan_epoch(case.epoch).iter().map(owned).collect();
        let mut epoch = planner.epoch(case.epoch);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
        let n_before = (whole.len() as f64 * part) as usize;
        for expected in &whole[..n_before] {
            prop_assert_eq!(&owned(epoch.next_batch().unwrap()), expected);
        }
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let position: PlanPosition = serde_json::from_str(&saved).unwrap();
        let mut resumed = planner.resume(&position).unwrap();
        prop_assert_eq!(resumed.position(), position);
        for expected in &whole[n_before..] {
            prop_assert_eq!(&owned(resumed.next_batch().unwrap()), expected);
        }
        prop_assert!(resumed.next_batch().is_none());
    }

    #[test]
    fn another_budget_takes_over_without_losing_a_sample(case in case(), n_before in 0usize..40, budget in [40u64..400, 40u64..400]) {
        let mut epoch = case.planner().epoch(case.epoch);
        let mut seen = Vec::new();
        for _ in 0..n_before {
            seen.extend(epoch.next_batch().map(|batch| batch.ids.to_vec()).unwrap_or_default());
        }
        let mut other = case.clone();
        other.budget = budget;
        other.config.window = Some(17);
        other.config.lattice = Lattice::default();
        let mut rest = epoch.hand_over(&other.planner()).unwrap();
        while let Some(batch) = rest.next_batch() {
            for (longest, budget) in batch.longest.into_iter().zip(budget) {
                prop_assert!(batch.ids.len() as u64 * u64::from(longest) <= budget);
            }
            seen.extend(batch.ids);
        }
        each_once(seen, case.lengths.len());
    }

    #[test]
    fn longest_first_needs_no_more_batches_than_any_division(lengths in prop::collection::vec(1u32..12, 1..8), budget in 11u64..40) {
        let index = SampleIndex::try_new([lengths.clone()]).unwrap();
        let config = PlanConfig { most_mates_kept: Fraction::ONE, ..PlanConfig::default() };
        let planner = BatchPlanner::try_new(index, PaddedBudget([budget]), config).unwrap();
        prop_assert_eq!(planner.plan_epoch(0).len(), fewest(&lengths, budget, &mut Vec::new()));
    }
}

/// The fewest batches, by trying every division.
fn fewest(left: &[u32], budget: u64, batches: &mut Vec<(u64, u32)>) -> usize {
    let [length, left @ ..] = left else { return batches.len() };
    let mut least = usize::MAX;
    for index in 0..batches.len() {
        let (n, longest) = batches[index];
        if (n + 1) * u64::from(longest.max(*length)) <= budget {
            batches[index] = (n + 1, longest.max(*length));
            least = least.min(fewest(left, budget, batches));
            batches[index] = (n, longest);
        }
    }
    batches.push((1, *length));
    least = least.min(fewest(left, budget, batches));
    batches.pop();
    least
}

#[test]
fn an_epoch_is_a_function_of_seed_and_epoch() {
    let lengths: Vec<u32> = (0..500).map(|id| id * 37 % 90 + 1).collect();
    let plan = |seed, epoch| {
        let config = PlanConfig { seed, window: Some(100), ..PlanConfig::default() };
        let index = SampleIndex::try_new([lengths.clone()]).unwrap();
        BatchPlanner::try_new(index, PaddedBudget([900]), config).unwrap().plan_epoch(epoch)
    };
    assert_eq!(plan(1, 2), plan(1, 2));
    assert_ne!(plan(1, 2), plan(1, 3));
    assert_ne!(plan(1, 2), plan(2, 2));
}

#[test]
fn a_position_of_another_plan_is_refused() {
    let planner = |n: u32, seed, window| {
        let index = SampleIndex::try_new([(1..=n).collect::<Vec<_>>()]).unwrap();
        let config = PlanConfig { seed, window: Some(window), ..PlanConfig::default() };
        BatchPlanner::try_new(index, PaddedBudget([100]), config).unwrap()
    };
    let mut epoch = planner(40, 1, 20).epoch(0);
    epoch.next_batch().unwrap();
    let mut position = epoch.position();
    let refused = |n, seed, window, position: &PlanPosition| {
        planner(n, seed, window).resume(position).map(|_| ()).unwrap_err().to_string()
    };
    let message = "resume an epoch: the position was taken with `seed` 1, the plan has 2";
    assert_eq!(refused(40, 2, 20, &position), message);
    let message = "resume an epoch: the position was taken with `n_samples` 40, the plan has 41";
    assert_eq!(refused(41, 1, 20, &position), message);
    let message = "resume an epoch: the position was taken with `window` 20, the plan has 10";
    assert_eq!(refused(40, 1, 10, &position), message);
    position.batch = 1000;
    assert!(refused(40, 1, 20, &position).starts_with("resume an epoch: the position says `batch` 1000, at most "));
}
