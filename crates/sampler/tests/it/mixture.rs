//! Mixtures of sources of different size.

use plimsoll_sampler::{
    BatchPlanner, EpochEnd, PaddedBudget, PlanConfig, PlanError, PlanPosition, SampleIndex, TaskMix,
};
use proptest::prelude::*;

type Planner = BatchPlanner<PaddedBudget<1>, 1>;

#[derive(Clone, Debug)]
struct Case {
    sizes: Vec<usize>,
    shares: Vec<f64>,
    ends: EpochEnd,
    window: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let source = (1usize..40, 1u32..9);
    let ends = prop_oneof![Just(EpochEnd::FirstExhausted), Just(EpochEnd::LastExhausted)];
    (prop::collection::vec(source, 5), ends, 1usize..300, any::<u64>()).prop_map(|(sources, ends, window, seed)| {
        let sum: f64 = sources.iter().map(|(_, share)| f64::from(*share)).sum();
        let (sizes, shares) = sources.into_iter().map(|(size, share)| (size, f64::from(share) / sum)).unzip();
        Case { sizes, shares, ends, window, seed }
    })
}

impl Case {
    fn tasks(&self) -> Vec<u16> {
        let of = |(task, size): (u16, &usize)| std::iter::repeat_n(task, *size);
        (0..).zip(&self.sizes).flat_map(of).collect()
    }

    fn planner(&self, budget: u64) -> Planner {
        let tasks = self.tasks();
        let lengths: Vec<u32> = (1..).take(tasks.len()).map(|id: u32| 1 + id * 7 % 20).collect();
        let index = SampleIndex::try_new([lengths]).unwrap().with_tasks(tasks).unwrap();
        let tasks = TaskMix { shares: Some(self.shares.clone()), ends: self.ends, ..TaskMix::default() };
        let config = PlanConfig { seed: self.seed, window: Some(self.window), tasks, ..PlanConfig::default() };
        BatchPlanner::try_new(index, PaddedBudget([budget]), config).unwrap()
    }

    /// How often each sample comes.
    #[track_caller]
    fn check(&self, ids: &[u64]) {
        let tasks = self.tasks();
        let mut times = vec![0u64; tasks.len()];
        for id in ids {
            times[usize::try_from(*id).unwrap()] += 1;
        }
        for (task, (size, share)) in self.sizes.iter().zip(&self.shares).enumerate() {
            let of_task = times.iter().zip(&tasks).filter(|(_, of)| usize::from(**of) == task).map(|(times, _)| *times);
            let n: u64 = of_task.clone().sum();
            assert!((n as f64 - share * ids.len() as f64).abs() <= 3.0, "{n} of {} for {share}", ids.len());
            let (least, most) = (of_task.clone().min().unwrap(), of_task.max().unwrap());
            assert!(most - least <= 1, "samples of task {task} come {least} to {most} times");
            match self.ends {
                EpochEnd::FirstExhausted => assert!(n <= *size as u64),
                _ => assert!(n >= *size as u64, "{n} of {size}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn shares_hold_to_the_end_through_resumption_and_another_rule(case in case(), n_before in 0usize..30) {
        let planner = case.planner(60);
        let whole: Vec<u64> = planner.batches(1).flat_map(|batch| batch.ids).collect();
        case.check(&whole);
        prop_assert_eq!(whole.len(), planner.n_planned());
        let mut epoch = planner.epoch(1);
        let mut ids: Vec<u64> = epoch.by_ref().take(n_before).flat_map(|batch| batch.ids).collect();
        let saved = serde_json::to_string(&epoch.position()).unwrap();
        let position: PlanPosition = serde_json::from_str(&saved).unwrap();
        let resumed = planner.resume(&position).unwrap();
        let rest: Vec<u64> = resumed.clone().flat_map(|batch| batch.ids).collect();
        prop_assert!(ids.iter().chain(&rest).eq(&whole));
        ids.extend(resumed.hand_over(&case.planner(90)).unwrap().flat_map(|batch| batch.ids));
        case.check(&ids);
        prop_assert_eq!(ids.len(), whole.len());
    }
}

#[test]
fn an_epoch_that_a_tiny_share_makes_endless_is_refused() {
    let index = SampleIndex::try_new([vec![1; 1_000]]).unwrap();
    let index = index.with_tasks((0..1_000).map(|id| u16::from(id > 0)).collect::<Vec<_>>()).unwrap();
    let tasks = TaskMix { shares: Some(vec![1.0 - 1e-9, 1e-9]), ends: EpochEnd::LastExhausted, ..TaskMix::default() };
    let config = PlanConfig { tasks, ..PlanConfig::default() };
    let error = BatchPlanner::try_new(index, PaddedBudget([10]), config).unwrap_err();
    assert!(matches!(error, PlanError::ShareTooSmall { task: 1, .. }), "{error}");
}

fn weighted(weights: &[f64]) -> Result<Planner, PlanError> {
    let index = SampleIndex::try_new([vec![5; weights.len()]])?.with_weights(weights)?;
    let config = PlanConfig { window: Some(700), ..PlanConfig::default() };
    BatchPlanner::try_new(index, PaddedBudget([60]), config)
}

#[test]
fn samples_come_in_proportion_to_their_weights() {
    let weights: Vec<f64> = (0..10_000u32).map(|id| f64::from(id % 4)).collect();
    let planner = weighted(&weights).unwrap();
    let mut epoch = planner.epoch(0);
    let mut ids: Vec<u64> = epoch.by_ref().take(100).flat_map(|batch| batch.ids).collect();
    let position: PlanPosition = serde_json::from_str(&serde_json::to_string(&epoch.position()).unwrap()).unwrap();
    ids.extend(planner.resume(&position).unwrap().flat_map(|batch| batch.ids));
    let mut counts = [0.0_f64; 4];
    for id in &ids {
        counts[usize::try_from(id % 4).unwrap()] += 1.0;
    }
    // The greatest standard deviation is 50.
    let expected = [0.0, 10_000.0 / 6.0, 20_000.0 / 6.0, 5_000.0];
    assert!(counts.iter().zip(expected).all(|(n, wanted)| (n - wanted).abs() < 250.0), "{counts:?}");
    assert!(ids.len() == 10_000 && counts[0] < 0.5, "{counts:?}");
    let rest = planner.epoch(1).hand_over(&planner).unwrap();
    assert_ne!(rest.flat_map(|batch| batch.ids).collect::<Vec<_>>(), ids);
}

#[test]
fn weights_that_cannot_be_are_refused() {
    let refused = |weights: &[f64]| weighted(weights).unwrap_err().to_string();
    assert_eq!(refused(&[0.0, 0.0]), "index the samples: the weights sum to 0, the sum must be a number above 0");
    let message = "index the samples: the weight of sample 1 is -2, it must be a number from 0";
    assert_eq!(refused(&[1.0, -2.0]), message);
    assert!(refused(&[f64::NAN]).contains("the weight of sample 0 is NaN"));
    let index = SampleIndex::try_new([[1, 2]]).unwrap();
    let message = "index the samples: there are 1 weights for 2 samples";
    assert_eq!(index.with_weights(&[1.0]).unwrap_err().to_string(), message);
}
