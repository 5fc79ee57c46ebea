//! Optimizer steps out of streams.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_sampler::{
    CapacityRule, EpochCursor, Lattice, PaddedBudget, PlanConfig, PlannedStep, Pushed, StepSize, StreamLimits,
    StreamPlanner, StreamSample, StreamStepPosition, StreamSteps,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

use crate::common::{cases, check_size, step_sizes};

const LONGEST: u32 = 40;

type Steps = StreamSteps<PaddedBudget<1>>;

/// What happens before a sample is pushed.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Nothing,
    /// Steps are taken until there is none.
    Take,
    /// The position is saved and resumed.
    Resume,
    /// Another budget.
    Change(u64),
}

#[derive(Clone, Debug)]
struct Case {
    samples: Vec<(u32, Happening)>,
    limits: StreamLimits,
    size: StepSize,
    /// Samples of an epoch; the last one has what is left.
    per_epoch: usize,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        20 => Just(Happening::Nothing),
        6 => Just(Happening::Take),
        1 => Just(Happening::Resume),
        1 => (u64::from(LONGEST)..400).prop_map(Happening::Change),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let samples = prop::collection::vec((1..=LONGEST, happening()), 1..300);
    let size = step_sizes(60, 900);
    (samples, 2usize..100, 800u64..20_000, size, 1usize..200).prop_map(|(samples, n, bytes, size, per_epoch)| Case {
        samples,
        limits: StreamLimits { samples: n, bytes: Bytes(bytes) },
        size,
        per_epoch,
    })
}

fn planner(rule: PaddedBudget<1>, limits: StreamLimits) -> StreamPlanner<PaddedBudget<1>, 1> {
    let lattice = Lattice::try_new([vec![4, 9, 16, 40]]).unwrap();
    StreamPlanner::try_new(rule, PlanConfig { lattice, ..PlanConfig::default() }, limits).unwrap()
}

/// A sample whose size does not follow from its length.
fn sample(id: u64, length: u32) -> StreamSample<1> {
    StreamSample { id, lengths: [length], task: 0, bytes: Bytes(id % 4 * 133 + 1) }
}

/// A run under way; a sample's id is its place in the case.
struct Run<'a> {
    case: &'a Case,
    rule: PaddedBudget<1>,
    steps: Steps,
    taken: Vec<PlannedStep>,
}

impl Run<'_> {
    fn length(&self, id: u64) -> u32 {
        self.case.samples[usize::try_from(id).unwrap()].0
    }

    fn take(&mut self) -> bool {
        let Some(step) = self.steps.next_step() else { return false };
        for batch in &step.batches {
            assert!(!batch.ids.is_empty() && batch.ids.len() <= self.rule.capacity(batch.cell) as usize, "{step:?}");
            assert!(batch.ids.iter().all(|id| self.length(*id) <= batch.cell[0]), "{step:?}");
        }
        assert!(step.batches.is_sorted_by_key(|batch| std::cmp::Reverse(batch.padded())), "{step:?}");
        self.taken.push(step);
        true
    }

    fn push(&mut self, id: u64) {
        while self.steps.push(sample(id, self.length(id))).unwrap() == Pushed::Full {
            assert!(self.take(), "a full buffer has a step");
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Nothing => {}
            Happening::Take => while self.take() {},
            Happening::Resume => {
                let saved = serde_json::to_string(&self.steps.position()).unwrap();
                let position: StreamStepPosition = serde_json::from_str(&saved).unwrap();
                let planner = planner(self.rule, self.case.limits);
                self.steps = StreamSteps::resume(planner, self.case.size, &position).unwrap();
                for id in position.stream.pending.ids() {
                    self.push(id);
                }
            }
            Happening::Change(budget) => {
                self.rule = PaddedBudget([budget]);
                self.steps.change(self.rule).unwrap();
            }
        }
    }
}

impl Case {
    fn run(&self) -> Vec<PlannedStep> {
        let rule = PaddedBudget([100]);
        let steps = StreamSteps::try_new(planner(rule, self.limits), self.size).unwrap();
        let mut run = Run { case: self, rule, steps, taken: Vec::new() };
        for (id, (_, happening)) in self.samples.iter().enumerate() {
            if id > 0 && id % self.per_epoch == 0 {
                run.steps.finish();
            }
            run.happen(*happening);
            run.push(id as u64);
        }
        run.steps.finish();
        while run.take() {}
        assert_eq!((run.steps.pending().count(), run.steps.held()), (0, (0, Bytes::ZERO)));
        run.taken
    }

    /// What must be true of a step's size.
    fn check_size(&self, step: &PlannedStep) {
        let ids = step.batches.iter().flat_map(|batch| &batch.ids);
        let positions: Vec<_> = ids.map(|id| self.samples[usize::try_from(*id).unwrap()].0.into()).collect();
        check_size(step, self.size, &positions);
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_sample_comes_once_in_its_epoch_whatever_happens(case in case()) {
        let steps = case.run();
        let mut before = (0, 0);
        let mut ids: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for step in &steps {
            case.check_size(step);
            prop_assert_eq!((step.epoch, step.span.start), before);
            ids.entry(step.epoch).or_default().extend(step.batches.iter().flat_map(|batch| &batch.ids));
            before = if step.ends_epoch { (step.epoch + 1, 0) } else { (step.epoch, step.span.end) };
        }
        let all: Vec<u64> = (0..case.samples.len() as u64).collect();
        prop_assert!(steps.last().unwrap().ends_epoch);
        for ((epoch, mut ids), expected) in ids.into_iter().zip(all.chunks(case.per_epoch)) {
            ids.sort_unstable();
            prop_assert_eq!(ids, expected, "epoch {}", epoch);
        }
    }
}

#[test]
fn the_statistics_count_a_wait_once() {
    let limits = StreamLimits { samples: 8, bytes: Bytes::mib(1) };
    let mut steps = StreamSteps::try_new(planner(PaddedBudget([100]), limits), StepSize::Samples(6)).unwrap();
    for id in 0..11 {
        assert_eq!(steps.push(sample(id, 10)).unwrap(), Pushed::Held);
        let step = steps.next_step();
        assert_eq!(step.is_some(), id == 7, "a step of 6 comes once 8 are planned: {step:?}");
    }
    let stats = steps.stats();
    assert_eq!((stats.times_empty, stats.samples, stats.most_samples, stats.most_bytes), (2, 11, 8, Bytes(1_604)));
    assert_eq!((steps.position().taken, steps.position().stream.pending.len()), (6, 5));
}

#[test]
fn a_new_epoch_waits_until_the_last_one_is_taken() {
    let limits = StreamLimits { samples: 8, bytes: Bytes::mib(1) };
    let mut steps = StreamSteps::try_new(planner(PaddedBudget([100]), limits), StepSize::Samples(2)).unwrap();
    for id in 0..3 {
        steps.push(sample(id, 10)).unwrap();
    }
    steps.finish();
    assert_eq!(steps.push(sample(3, 10)).unwrap(), Pushed::Full);
    assert!(!steps.next_step().unwrap().ends_epoch);
    assert!(steps.next_step().unwrap().ends_epoch);
    assert_eq!((steps.next_step(), steps.position().stream.epoch), (None, 1));
    assert_eq!(steps.push(sample(3, 10)).unwrap(), Pushed::Held);
    steps.finish();
    let step = steps.next_step().unwrap();
    assert_eq!((step.epoch, step.span, step.ends_epoch), (1, 0..1, true));
}

#[test]
fn a_smaller_rule_takes_batches_back() {
    let limits = StreamLimits { samples: 40, bytes: Bytes::mib(1) };
    let mut planner = planner(PaddedBudget([400]), limits);
    for id in 0..20 {
        planner.push(sample(id, 40)).unwrap();
    }
    let before = planner.clone();
    let error = planner.change(PaddedBudget([39])).unwrap_err();
    assert!(error.to_string().ends_with(" has length 40 on axis 0, at most 16 fits even alone"), "{error}");
    assert_eq!(planner, before);
    planner.change(PaddedBudget([80])).unwrap();
    assert_eq!(planner.held(), (20, Bytes(4_010)));
    let mut ids = Vec::new();
    planner.finish();
    while let Some(batch) = planner.next_batch() {
        assert!(batch.ids.len() <= 2);
        ids.extend(batch.ids);
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..20));
}

#[test]
fn what_is_carried_leaves_room_for_the_next_sample() {
    let mut planner = planner(PaddedBudget([100]), StreamLimits { samples: 40, bytes: Bytes(100) });
    let sizes = [(0, 40, 1), (1, 40, 1), (2, 40, 1), (3, 4, 30), (4, 4, 50)];
    for (id, length, bytes) in sizes {
        let sample = StreamSample { id, lengths: [length], task: 0, bytes: Bytes(bytes) };
        assert_eq!(planner.push(sample).unwrap(), Pushed::Held);
    }
    while planner.next_batch().is_some() {}
    let sample = StreamSample { id: 5, lengths: [4], task: 0, bytes: Bytes(50) };
    assert_eq!(planner.push(sample).unwrap(), Pushed::Held);
}

#[test]
fn a_position_of_a_full_buffer_is_small_and_comes_back() {
    const N_SAMPLES: u64 = 10_000_000;
    let limits = StreamLimits { samples: 1024, bytes: Bytes::mib(1) };
    let rule = PaddedBudget([100]);
    let mut steps = StreamSteps::try_new(planner(rule, limits), StepSize::Samples(16)).unwrap();
    let mut cursor = EpochCursor::try_new(N_SAMPLES, 3).unwrap();
    let (mut largest, mut held) = (0, BTreeSet::new());
    for _ in 0..5_000 {
        let id = cursor.take(1).1[0];
        let length = u32::try_from(id).unwrap() % LONGEST + 1;
        while steps.push(sample(id, length)).unwrap() == Pushed::Full {
            let step = steps.next_step().unwrap();
            step.batches.iter().flat_map(|batch| &batch.ids).for_each(|id| assert!(held.remove(id)));
            let position = steps.position();
            let saved = serde_json::to_string(&position).unwrap();
            largest = largest.max(saved.len());
            let read: StreamStepPosition = serde_json::from_str(&saved).unwrap();
            assert_eq!(read, position);
            assert!(read.stream.pending.ids().iter().eq(&held), "in growing order");
        }
        held.insert(id);
    }
    assert!(900 < held.len() && largest <= 4096, "{largest} bytes");
}
