//! Steps out of a stream that is interrupted whenever it can be.

use std::fmt::Debug;

use plimsoll_sampler::{
    CapacityRule, PlanConfig, PlannedStep, Pushed, StepSize, StreamLimits, StreamPlanner, StreamSample,
    StreamStepPosition, StreamSteps,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

use crate::common::stream_limits;

/// A stream, and what is done with it.
#[derive(Clone, Debug)]
pub(crate) struct Case<R, const AXES: usize> {
    /// Lengths, task, and whether a step is taken afterwards, and another rule followed.
    samples: Vec<([u32; AXES], u16, bool, Option<R>)>,
    config: PlanConfig<AXES>,
    /// The rule that the stream begins with.
    first: R,
    limits: StreamLimits,
    size: StepSize,
    per_epoch: usize,
}

/// What happens whenever it can.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbed {
    Never,
    Interrupted,
    /// It goes on with a buffer of another size.
    WithOtherBuffers,
}

/// Streams of samples with these lengths, which begin with a rule and sometimes follow another.
pub(crate) fn streams<R: Clone + Debug, const AXES: usize>(
    first: R,
    config: impl Strategy<Value = PlanConfig<AXES>>,
    (lengths, rules): (impl Strategy<Value = [u32; AXES]>, impl Strategy<Value = R>),
    sizes: impl Strategy<Value = StepSize>,
) -> impl Strategy<Value = Case<R, AXES>> {
    let change = prop::option::weighted(0.05, rules);
    let samples = prop::collection::vec((lengths, 0u16..3, any::<bool>(), change), 1..150);
    (samples, config, stream_limits(), sizes, 1usize..100).prop_map(
        move |(samples, config, limits, size, per_epoch)| Case {
            samples,
            config,
            first: first.clone(),
            limits,
            size,
            per_epoch,
        },
    )
}

impl<R: CapacityRule<AXES> + Clone + Debug, const AXES: usize> Case<R, AXES> {
    /// Returns the steps, each of which `check` is given with the rule that it was made for, the step size, and the lengths of a
    /// sample.
    pub(crate) fn run(
        &self,
        disturbed: Disturbed,
        check: impl Fn(&PlannedStep<AXES>, (R, StepSize), &dyn Fn(u64) -> [u32; AXES]),
    ) -> Vec<PlannedStep<AXES>> {
        let steps = StreamSteps::try_new(self.planner(&self.first, self.limits), self.size).unwrap();
        let mut run = Run { case: self, disturbed, check, rule: self.first.clone(), steps, taken: Vec::new() };
        for (at, (_, _, take, change)) in self.samples.iter().enumerate() {
            if at > 0 && at % self.per_epoch == 0 {
                run.steps.finish();
                run.disturb();
            }
            run.push(at as u64);
            if *take {
                run.take();
            }
            if let Some(rule) = change {
                run.rule = rule.clone();
                run.steps.change(rule.clone()).unwrap();
                run.disturb();
            }
        }
        run.steps.finish();
        while run.take() {}
        assert_eq!(run.steps.pending().count(), 0);
        run.taken
    }

    /// Holds steps to having every sample once in its epoch.
    pub(crate) fn check_epochs(&self, steps: &[PlannedStep<AXES>]) {
        let all: Vec<u64> = (0..self.samples.len() as u64).collect();
        for (epoch, expected) in (0..).zip(all.chunks(self.per_epoch)) {
            let of_epoch = steps.iter().filter(|step| step.epoch == epoch).flat_map(|step| &step.batches);
            let mut ids: Vec<u64> = of_epoch.flat_map(|batch| &batch.ids).copied().collect();
            ids.sort_unstable();
            assert_eq!(ids, expected);
        }
    }

    /// Follows a rule that may have no room for a multiple.
    fn planner(&self, rule: &R, limits: StreamLimits) -> StreamPlanner<R, AXES> {
        let mut planner = StreamPlanner::try_new(self.first.clone(), self.config.clone(), limits).unwrap();
        planner.change(rule.clone()).unwrap();
        planner
    }

    /// A sample whose size does not follow from its lengths.
    fn sample(&self, id: u64) -> StreamSample<AXES> {
        let (lengths, task, ..) = self.samples[usize::try_from(id).unwrap()];
        StreamSample { id, lengths, task, bytes: Bytes(id % 4 * 133 + 1) }
    }
}

struct Run<'a, R, C, const AXES: usize> {
    case: &'a Case<R, AXES>,
    disturbed: Disturbed,
    check: C,
    rule: R,
    steps: StreamSteps<R, AXES>,
    taken: Vec<PlannedStep<AXES>>,
}

impl<R, C, const AXES: usize> Run<'_, R, C, AXES>
where
    R: CapacityRule<AXES> + Clone + Debug,
    C: Fn(&PlannedStep<AXES>, (R, StepSize), &dyn Fn(u64) -> [u32; AXES]),
{
    fn push(&mut self, id: u64) {
        while self.steps.push(self.case.sample(id)).unwrap() == Pushed::Full {
            assert!(self.take(), "a full buffer has a step");
        }
        self.disturb();
    }

    fn take(&mut self) -> bool {
        let step = self.steps.next_step();
        let is_step = step.is_some();
        if let Some(step) = step {
            (self.check)(&step, (self.rule.clone(), self.case.size), &|id| self.case.sample(id).lengths);
            self.taken.push(step);
        }
        self.disturb();
        is_step
    }

    /// Begins again at the position of now; that of a stream which still waits for samples is the same.
    fn disturb(&mut self) {
        if self.disturbed == Disturbed::Never {
            return;
        }
        let position = self.steps.position();
        let saved = serde_json::to_string(&position).unwrap();
        let read: StreamStepPosition<AXES> = serde_json::from_str(&saved).unwrap();
        let mut limits = self.case.limits;
        if self.disturbed == Disturbed::WithOtherBuffers {
            limits.samples = 2 + (limits.samples + self.taken.len() * 7) % 60;
        }
        self.steps = StreamSteps::resume(self.case.planner(&self.rule, limits), self.case.size, &read).unwrap();
        assert!(self.steps.missing().eq(read.stream.pending.ids()));
        for id in read.stream.pending.ids().into_iter().rev() {
            assert_eq!(self.steps.next_step(), None);
            assert_eq!(self.steps.position(), position);
            assert_eq!(self.steps.push(self.case.sample(id)).unwrap(), Pushed::Held);
        }
        assert!(self.disturbed != Disturbed::Interrupted || self.steps.position() == position);
    }
}
