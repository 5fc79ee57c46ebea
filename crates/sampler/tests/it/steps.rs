//! What every sequence of optimizer steps keeps, whatever happens to it.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, Lattice, PaddedBudget, PlanConfig, PlanError, PlannedStep, SampleIndex, StepPlanner,
    StepPosition, StepSize,
};
use proptest::prelude::*;

use crate::common::{cases, check_size, step_sizes};

const LONGEST: u32 = 40;

/// The rule of the first step, which has room for two of the longest.
const FIRST: PaddedBudget<1> = PaddedBudget([100]);

type Planner = BatchPlanner<PaddedBudget<1>, 1>;

/// What happens between two steps.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Nothing,
    /// The position is saved and resumed.
    Resume,
    /// So many steps were taken ahead and are not used; from where they began, another budget.
    Change(u64, usize),
}

#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<u32>,
    config: PlanConfig<1>,
    size: StepSize,
    /// The most padded positions of a step.
    room: u64,
    happenings: Vec<Happening>,
}

fn budget() -> impl Strategy<Value = u64> {
    u64::from(LONGEST)..400
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Nothing),
        1 => Just(Happening::Resume),
        2 => (budget(), prop_oneof![4 => 0usize..6, 1 => 0usize..60]).prop_map(|(b, n)| Happening::Change(b, n)),
    ]
}

fn size() -> impl Strategy<Value = StepSize> {
    step_sizes(60, 900)
}

fn case() -> impl Strategy<Value = Case> {
    let edges = prop_oneof![Just(vec![]), Just(vec![4, 9, 16, 40]), Just(vec![40])];
    let config = (any::<u64>(), prop::option::of(1usize..200), edges, 1u32..3);
    let config = config.prop_map(|(seed, window, edges, multiple_of)| PlanConfig {
        seed,
        window,
        multiple_of,
        lattice: Lattice::try_new([edges]).unwrap(),
        ..PlanConfig::default()
    });
    let lengths = prop::collection::vec(1..=LONGEST, 1..250);
    let room = prop_oneof![2 => Just(u64::MAX), 1 => 1u64..900];
    (lengths, config, size(), room, prop::collection::vec(happening(), 1..60))
        .prop_map(|(lengths, config, size, room, happenings)| Case { lengths, config, size, room, happenings })
}

impl Case {
    fn start(&self) -> StepPlanner<PaddedBudget<1>> {
        let index = SampleIndex::try_new([self.lengths.clone()]).unwrap();
        let planner = BatchPlanner::try_new(index, FIRST, self.config.clone()).unwrap();
        StepPlanner::try_new(&planner, self.size).unwrap().with_room(self.room)
    }

    /// Goes to a position that was taken under a rule, which may have no room for a multiple.
    fn at(&self, position: &StepPosition, rule: PaddedBudget<1>) -> StepPlanner<PaddedBudget<1>> {
        let mut steps = self.start();
        steps.go_back(rule, position).unwrap();
        steps
    }

    fn length(&self, id: u64) -> u32 {
        self.lengths[usize::try_from(id).unwrap()]
    }

    /// What must be true of a step on its own.
    #[track_caller]
    fn check(&self, step: &PlannedStep, rule: PaddedBudget<1>) {
        let costs: Vec<u64> =
            step.batches.iter().map(|batch| batch.ids.len() as u64 * u64::from(batch.cell[0])).collect();
        assert!(!costs.is_empty() && costs.is_sorted_by(|a, b| a >= b), "{step:?}");
        for batch in &step.batches {
            assert!(!batch.ids.is_empty() && batch.ids.len() <= rule.capacity(batch.cell) as usize, "{step:?}");
            assert!(batch.ids.iter().all(|id| self.length(*id) <= batch.cell[0]), "{step:?}");
        }
        let ids = step.batches.iter().flat_map(|batch| &batch.ids);
        let positions: Vec<_> = ids.map(|id| self.length(*id).into()).collect();
        if self.size == StepSize::Batch || self.room == u64::MAX {
            return check_size(step, self.size, &positions);
        }
        let padded: u64 = costs.iter().sum();
        assert!(padded <= self.room || positions.len() == 1, "{step:?}");
        // Only what has no room ends it before its size.
        assert!(
            self.size.is_whole(&step.span) || step.ends_epoch || self.room < padded + u64::from(LONGEST),
            "{step:?}"
        );
    }

    /// Takes a step after each happening, and then the rest of the epoch; returns the steps that were used.
    fn run(&self) -> Vec<PlannedStep> {
        let (mut rule, mut steps) = (FIRST, self.start());
        let mut taken: Vec<PlannedStep> = Vec::new();
        // Where each of them began, and under which rule.
        let mut begun: Vec<(StepPosition, PaddedBudget<1>)> = Vec::new();
        for happening in &self.happenings {
            match *happening {
                Happening::Nothing => {}
                Happening::Resume => {
                    let saved = serde_json::to_string(&steps.position()).unwrap();
                    let position: StepPosition = serde_json::from_str(&saved).unwrap();
                    let mut resumed = self.at(&position, rule);
                    assert_eq!(resumed.position(), position);
                    assert_eq!(resumed.clone().next_step(), steps.next_step());
                    std::mem::swap(&mut steps, &mut resumed);
                }
                Happening::Change(budget, n) => {
                    let used = taken.len().saturating_sub(n);
                    taken.truncate(used);
                    if let Some((position, was)) = begun.split_off(used).first() {
                        steps = self.at(position, *was);
                    }
                    rule = PaddedBudget([budget]);
                    steps.change(rule).unwrap();
                }
            }
            begun.push((steps.position(), rule));
            let step = steps.next_step();
            self.check(&step, rule);
            taken.push(step);
        }
        while !taken.last().is_some_and(|step| step.ends_epoch) {
            taken.push(steps.next_step());
            self.check(taken.last().unwrap(), rule);
        }
        taken
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_sample_comes_once_in_every_epoch_whatever_happens(case in case()) {
        let steps = case.run();
        let mut seen: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut before = (0, 0);
        for step in &steps {
            prop_assert_eq!((step.epoch, step.span.start), before);
            for id in step.batches.iter().flat_map(|batch| &batch.ids) {
                prop_assert!(seen.entry(step.epoch).or_default().insert(*id), "{} twice in epoch {}", id, step.epoch);
            }
            before = if step.ends_epoch { (step.epoch + 1, 0) } else { (step.epoch, step.span.end) };
        }
        for (epoch, ids) in seen {
            prop_assert_eq!(ids.len(), case.lengths.len(), "epoch {}", epoch);
        }
    }
}

fn planner(lengths: &[u32], seed: u64) -> Planner {
    let config =
        PlanConfig { seed, lattice: Lattice::try_new([vec![8, 16, 32, 64]]).unwrap(), ..PlanConfig::default() };
    BatchPlanner::try_new(SampleIndex::try_new([lengths]).unwrap(), PaddedBudget([256]), config).unwrap()
}

fn lengths() -> Vec<u32> {
    (0..1000).map(|id| id * 37 % 64 + 1).collect()
}

fn first(n: usize, size: StepSize, seed: u64) -> Vec<PlannedStep> {
    let mut steps = StepPlanner::try_new(&planner(&lengths(), seed), size).unwrap();
    (0..n).map(|_| steps.next_step()).collect()
}

#[test]
fn steps_are_a_function_of_the_seed() {
    let size = StepSize::Samples(48);
    assert_eq!(first(30, size, 1), first(30, size, 1));
    assert_ne!(first(30, size, 1), first(30, size, 2));
}

#[test]
fn the_mean_of_the_positions_is_what_was_asked_for() {
    let steps = first(300, StepSize::Positions(500), 1);
    let whole: Vec<_> = steps.iter().filter(|step| !step.ends_epoch).collect();
    for step in &whole {
        assert!((437..564).contains(&(step.span.end - step.span.start)), "{step:?}");
    }
    // The 65 steps of an epoch end within one sample of 65 times as many positions.
    let mean = whole.iter().map(|step| step.span.end - step.span.start).sum::<u64>() as f64 / whole.len() as f64;
    assert!((mean - 500.0).abs() < 1.0, "{mean}");
}

#[test]
fn a_step_has_samples_of_many_lengths() {
    let steps = first(8, StepSize::Samples(128), 3);
    let edges = |step: &PlannedStep| step.batches.iter().map(|batch| batch.cell[0]).collect::<BTreeSet<_>>().len();
    assert!(steps.iter().all(|step| edges(step) >= 3), "{:?}", steps.iter().map(edges).collect::<Vec<_>>());
}

#[test]
fn a_position_is_small() {
    let mut steps = StepPlanner::try_new(&planner(&lengths(), 1), StepSize::Samples(48)).unwrap();
    for _ in 0..50 {
        steps.next_step();
        let saved = serde_json::to_string(&steps.position()).unwrap();
        assert!(saved.len() < 400, "{saved}");
    }
}

#[test]
fn a_rule_that_does_not_fit_changes_nothing() {
    let mut steps = StepPlanner::try_new(&planner(&lengths(), 1), StepSize::Samples(48)).unwrap();
    let before = steps.clone();
    let error = steps.change(PaddedBudget([40])).unwrap_err();
    assert_eq!(error.to_string(), "plan batches: sample 1 has length 38 on axis 0, at most 32 fits even alone");
    assert_eq!(steps, before);
}

#[test]
fn a_multiple_gives_way_where_there_is_no_room_for_it_any_more() {
    let config = PlanConfig { multiple_of: 4, ..PlanConfig::default() };
    let index = SampleIndex::try_new([lengths()]).unwrap();
    let refused = BatchPlanner::try_new(index.clone(), PaddedBudget([128]), config.clone()).unwrap_err();
    assert!(matches!(refused, PlanError::MultipleAboveBudget { multiple: 4, capacity: 2, length: 64 }), "{refused}");
    let planner = BatchPlanner::try_new(index, PaddedBudget([256]), config).unwrap();
    let mut steps = StepPlanner::try_new(&planner, StepSize::Batch).unwrap();
    let below = |steps: &mut StepPlanner<_>| {
        let sizes = (0..20).map(|_| steps.next_step().batches[0].ids.len());
        sizes.filter(|n| n % 4 != 0).collect::<Vec<_>>()
    };
    // What is left of an epoch is one batch.
    assert!(below(&mut steps).len() <= 1);
    steps.change(PaddedBudget([128])).unwrap();
    let fewer = below(&mut steps);
    assert!(4 < fewer.len() && fewer.iter().all(|n| *n < 4), "{fewer:?}");
    steps.change(PaddedBudget([256])).unwrap();
    assert!(below(&mut steps).len() <= 1);
}

#[test]
fn a_step_of_nothing_is_refused_by_name() {
    let refused = |size| StepPlanner::try_new(&planner(&lengths(), 1), size).unwrap_err().to_string();
    let message = "plan batches: `samples of a step` is 0, it must be at least 1";
    assert_eq!(refused(StepSize::Samples(0)), message);
    let message = "plan batches: `positions of a step` is 0, it must be at least 1";
    assert_eq!(refused(StepSize::Positions(0)), message);
}
