//! What every sequence of optimizer steps of groups keeps, whatever happens to it.

use std::collections::BTreeMap;

use plimsoll_sampler::{
    BatchToDeal, CapacityRule, GroupSteps, Groups, Lattice, Objective, PaddedBudget, PlanConfig, PlannedStep,
    StepBatch, StepPosition, StepSize, deal_batches,
};
use proptest::prelude::*;

use crate::common::{cases, step_sizes};

const LONGEST: u32 = 40;

/// What happens before a step.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Nothing,
    /// The position is saved, and the run goes on with so many ranks.
    Resume(usize),
    /// The step was taken ahead and is not used; from where it began, another budget.
    Change(u64),
}

#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<u32>,
    group_of: Vec<u32>,
    config: PlanConfig<1>,
    size: StepSize,
    happenings: Vec<Happening>,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => Just(Happening::Nothing),
        1 => (1usize..5).prop_map(Happening::Resume),
        2 => (u64::from(LONGEST)..400).prop_map(Happening::Change),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let edges = prop_oneof![Just(vec![]), Just(vec![4, 9, 16, LONGEST]), Just(vec![LONGEST])];
    let config = (any::<u64>(), prop::option::of(1usize..100), edges).prop_map(|(seed, window, edges)| PlanConfig {
        seed,
        window,
        lattice: Lattice::try_new([edges]).unwrap(),
        ..PlanConfig::default()
    });
    let samples = (1u32..60).prop_flat_map(|n| prop::collection::vec((1..=LONGEST, 0..n), 1..250));
    (samples, config, step_sizes(60, 900), prop::collection::vec(happening(), 1..60)).prop_map(
        |(samples, config, size, happenings)| {
            let (lengths, group_of) = samples.into_iter().unzip();
            Case { lengths, group_of, config, size, happenings }
        },
    )
}

impl Case {
    fn start(&self, groups: &Groups, rule: PaddedBudget<1>) -> GroupSteps<PaddedBudget<1>> {
        groups.steps(rule, self.config.clone(), self.size).unwrap()
    }

    fn group(&self, id: u64) -> u32 {
        self.group_of[usize::try_from(id).unwrap()]
    }

    fn length(&self, id: u64) -> u32 {
        self.lengths[usize::try_from(id).unwrap()]
    }

    /// What must be true of a step on its own.
    fn check(&self, step: &PlannedStep, rule: PaddedBudget<1>, most_weight: u64) {
        let mut batches_of = BTreeMap::<u32, Vec<usize>>::new();
        let mut weight = 0;
        for (at, batch) in step.batches.iter().enumerate() {
            let room = rule.capacity(batch.cell) as usize;
            assert!((1..=room).contains(&batch.ids.len()), "{batch:?}");
            for id in &batch.ids {
                assert!(self.length(*id) <= batch.cell[0], "{batch:?}");
                batches_of.entry(self.group(*id)).or_default().push(at);
                weight += if let StepSize::Positions(_) = self.size { u64::from(self.length(*id)) } else { 1 };
            }
        }
        for (group, of) in batches_of {
            let n_samples = self.group_of.iter().filter(|it| **it == group).count();
            assert_eq!(of.len(), n_samples, "group {group} is torn");
            let room = rule.capacity(step.batches[of[0]].cell) as usize;
            assert!(room < n_samples || of.iter().all(|at| *at == of[0]), "group {group} would fit into a batch");
        }
        assert_eq!(step.span.end - step.span.start, weight);
        let (StepSize::Samples(_) | StepSize::Positions(_)) = self.size else { return };
        let size = match self.size {
            StepSize::Samples(n) => n.into(),
            StepSize::Positions(n) => n,
            StepSize::Batch => unreachable!("a batch has no size"),
        };
        let end = (step.span.start / size + 1) * size;
        assert!(step.span.end < end + most_weight, "{step:?} goes on beyond {end}");
        assert!(end <= step.span.end || step.ends_epoch, "{step:?} ends before {end}");
    }

    /// Takes a step after each happening, and then the rest of the epoch; returns what each of its ranks has of each.
    fn run(&self, groups: &Groups) -> Vec<(u64, Vec<Vec<u64>>)> {
        let (mut rule, mut n_ranks) = (PaddedBudget([100]), 1);
        let (mut steps, mut taken) = (self.start(groups, rule), Vec::new());
        let most_weight = groups.most_weight(self.size);
        for happening in self.happenings.iter().copied().chain(std::iter::repeat(Happening::Nothing)) {
            match happening {
                Happening::Nothing => {}
                Happening::Resume(n) => {
                    n_ranks = n;
                    let saved = serde_json::to_string(&steps.position()).unwrap();
                    let position: StepPosition = serde_json::from_str(&saved).unwrap();
                    let mut resumed =
                        GroupSteps::resume(groups, (rule, self.config.clone()), self.size, &position).unwrap();
                    assert_eq!(resumed.position(), position);
                    assert_eq!(resumed.clone().next_step(), steps.clone().next_step());
                    std::mem::swap(&mut steps, &mut resumed);
                }
                Happening::Change(budget) => {
                    let position = steps.position();
                    steps.next_step();
                    steps.go_back(rule, &position).unwrap();
                    rule = PaddedBudget([budget]);
                    steps.change(rule).unwrap();
                }
            }
            let step = steps.next_step();
            self.check(&step, rule, most_weight);
            let ends = step.ends_epoch && self.happenings.len() <= taken.len();
            taken.push((step.epoch, dealt(&step, n_ranks)));
            if ends {
                return taken;
            }
        }
        unreachable!("it never ends")
    }
}

/// Deals the samples of a step to ranks of one speed.
fn dealt(step: &PlannedStep, n_ranks: usize) -> Vec<Vec<u64>> {
    let to_deal = |it: &StepBatch| {
        let n_samples = u32::try_from(it.ids.len()).unwrap();
        BatchToDeal { n_samples, length: it.cell[0], multiple_of: 1, limits: vec![n_samples; n_ranks] }
    };
    let batches: Vec<_> = step.batches.iter().map(to_deal).collect();
    let counts = deal_batches(&vec![1.0; n_ranks], None, &batches).unwrap();
    let mut of_ranks = vec![Vec::new(); n_ranks];
    for (batch, counts) in step.batches.iter().zip(counts) {
        let mut ids = batch.ids.iter().copied();
        of_ranks.iter_mut().zip(counts).for_each(|(own, n)| own.extend(ids.by_ref().take(n as usize)));
    }
    of_ranks
}

proptest! {
    #![proptest_config(cases(256))]

    /// Every sample comes once an epoch, all of a group in one step, whatever the budget, the ranks and the interruptions.
    #[test]
    fn groups_come_whole_in_one_step_of_each_epoch(case in case()) {
        let groups = Groups::try_new(&case.lengths, &case.group_of).unwrap();
        let config = PlanConfig { lattice: Lattice::default(), ..case.config.clone() };
        let is_above = match case.size {
            StepSize::Samples(n) => u64::from(n) < groups.most_weight(case.size),
            StepSize::Positions(n) => n < groups.most_weight(case.size),
            StepSize::Batch => false,
        };
        if is_above {
            let refused = groups.steps(PaddedBudget([100]), config, case.size).unwrap_err().to_string();
            prop_assert!(refused.contains("a step takes"), "{}", refused);
            return Ok(());
        }
        let mut epochs = BTreeMap::<u64, Vec<u64>>::new();
        for (epoch, of_ranks) in case.run(&groups) {
            epochs.entry(epoch).or_default().extend(of_ranks.into_iter().flatten());
        }
        for mut ids in epochs.into_values() {
            ids.sort_unstable();
            prop_assert!(ids.into_iter().eq(0..case.lengths.len() as u64));
        }
    }
}

#[test]
fn steps_have_the_size_that_was_asked_for_on_average_and_exactly_where_groups_divide_it() {
    let sizes = |group_of: &[u32], size| {
        let lengths: Vec<u32> = (0..).take(group_of.len()).map(|id: u32| 1 + id * 7 % 40).collect();
        let groups = Groups::try_new(&lengths, group_of).unwrap();
        let mut steps = groups.steps(PaddedBudget([400]), PlanConfig::default(), StepSize::Samples(size)).unwrap();
        let of_epoch = std::iter::from_fn(|| Some(steps.next_step())).take_while(|it| !it.ends_epoch);
        of_epoch.map(|it| it.span.end - it.span.start).collect::<Vec<_>>()
    };
    let pairs: Vec<u32> = (0..2_000).map(|id| id / 2).collect();
    assert!(sizes(&pairs, 32).iter().all(|n| *n == 32));
    let threes: Vec<u32> = (0..3_000).map(|id| id / 3).collect();
    let of_threes = sizes(&threes, 32);
    assert!(of_threes.iter().all(|n| (30..=33).contains(n)), "{of_threes:?}");
    let (n, sum) = (of_threes.len() as u64, of_threes.iter().sum::<u64>());
    assert!((n * 32..n * 32 + 3).contains(&sum), "{sum} of {n} steps");
}

#[test]
fn what_makes_no_steps_of_groups_is_refused() {
    let groups = Groups::try_new(&[10, 30, 20, 30], &[7, 9, 7, 9]).unwrap();
    let refused = |config, size| groups.steps(PaddedBudget([100]), config, size).unwrap_err().to_string();
    let message = "group samples: group 7 has 2 samples, a step takes 1; set larger steps";
    assert_eq!(refused(PlanConfig::default(), StepSize::Samples(1)), message);
    let message = "group samples: group 9 has 60 positions, a step takes 59; set larger steps";
    assert_eq!(refused(PlanConfig::default(), StepSize::Positions(59)), message);
    let time = PlanConfig { objective: Objective::LeastTime { batch_overhead: 1.0 }, ..PlanConfig::default() };
    let message = "group samples: `objective` is the least time, groups stay whole";
    assert_eq!(refused(time, StepSize::Batch), message);
    // A sample that does not fit is named, not its group.
    let long = Groups::try_new(&[10, 30, 150, 20], &[7, 7, 9, 9]).unwrap();
    let error = long.steps(PaddedBudget([100]), PlanConfig::default(), StepSize::Batch).unwrap_err().to_string();
    assert!(error.contains("sample 2 has length 150 on axis 0"), "{error}");
    // A position of other groups of as many, as long.
    let other = Groups::try_new(&[10, 30, 20, 30], &[7, 9, 9, 7]).unwrap();
    let position = groups.steps(PaddedBudget([100]), PlanConfig::default(), StepSize::Batch).unwrap().position();
    let resumed = GroupSteps::resume(&other, (PaddedBudget([100]), PlanConfig::default()), StepSize::Batch, &position);
    let message = resumed.unwrap_err().to_string();
    assert!(message.contains("fingerprint"), "{message}");
}
