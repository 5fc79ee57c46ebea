//! Optimizer steps out of a stream of samples with two axes.

use plimsoll_sampler::{
    PlanConfig, PlannedStep, Pushed, StepSize, StreamLimits, StreamPlanner, StreamSample, StreamStepPosition,
    StreamSteps, TaskMix,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

use crate::common::{Room, cases, check_step_of_two, lattices_of_two, lengths_of_two, step_sizes, stream_limits};

#[derive(Clone, Debug)]
struct Case {
    /// Lengths, task, and whether steps are taken afterwards, and another room followed.
    samples: Vec<([u32; 2], u16, bool, Option<u32>)>,
    config: PlanConfig<2>,
    limits: StreamLimits,
    size: StepSize,
    per_epoch: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let config = (any::<u64>(), any::<bool>(), lattices_of_two()).prop_map(|(seed, homogeneous, lattice)| PlanConfig {
        seed,
        lattice,
        tasks: TaskMix { homogeneous, ..TaskMix::default() },
        ..PlanConfig::default()
    });
    let room = prop_oneof![20 => Just(None), 1 => (Room::LEAST.0..8000).prop_map(Some)];
    let samples = prop::collection::vec((lengths_of_two(), 0u16..3, any::<bool>(), room), 1..150);
    (samples, config, stream_limits(), step_sizes(40, 2000), 1usize..100)
        .prop_map(|(samples, config, limits, size, per_epoch)| Case { samples, config, limits, size, per_epoch })
}

struct Run<'a> {
    case: &'a Case,
    /// Whether it begins again at its position whenever anything has happened.
    is_disturbed: bool,
    room: Room,
    steps: StreamSteps<Room, 2>,
    taken: Vec<PlannedStep<2>>,
}

impl Case {
    fn lengths(&self, id: u64) -> [u32; 2] {
        self.samples[usize::try_from(id).unwrap()].0
    }

    /// A sample whose size does not follow from its lengths.
    fn sample(&self, id: u64) -> StreamSample<2> {
        let task = self.samples[usize::try_from(id).unwrap()].1;
        StreamSample { id, lengths: self.lengths(id), task, bytes: Bytes(id % 4 * 133 + 1) }
    }

    fn planner(&self, room: Room) -> StreamPlanner<Room, 2> {
        StreamPlanner::try_new(room, self.config.clone(), self.limits).unwrap()
    }

    fn run(&self, is_disturbed: bool) -> Vec<PlannedStep<2>> {
        let room = Room::LEAST;
        let steps = StreamSteps::try_new(self.planner(room), self.size).unwrap();
        let mut run = Run { case: self, is_disturbed, room, steps, taken: Vec::new() };
        for (at, (_, _, take, room)) in self.samples.iter().enumerate() {
            if at > 0 && at % self.per_epoch == 0 {
                run.steps.finish();
                run.disturb();
            }
            run.push(at as u64);
            while *take && run.take() {}
            if let Some(room) = room {
                run.room = Room(*room);
                run.steps.change(run.room).unwrap();
                run.disturb();
            }
        }
        run.steps.finish();
        while run.take() {}
        assert_eq!(run.steps.pending().count(), 0);
        run.taken
    }
}

impl Run<'_> {
    fn push(&mut self, id: u64) {
        while self.steps.push(self.case.sample(id)).unwrap() == Pushed::Full {
            assert!(self.take(), "a full buffer has a step");
        }
        self.disturb();
    }

    fn take(&mut self) -> bool {
        let Some(step) = self.steps.next_step() else { return false };
        check_step_of_two(&step, (self.room, self.case.size), |id| self.case.lengths(id));
        self.taken.push(step);
        self.disturb();
        true
    }

    fn disturb(&mut self) {
        if !self.is_disturbed {
            return;
        }
        let position = self.steps.position();
        let saved = serde_json::to_string(&position).unwrap();
        let read: StreamStepPosition<2> = serde_json::from_str(&saved).unwrap();
        self.steps = StreamSteps::resume(self.case.planner(self.room), self.case.size, &read).unwrap();
        for id in read.stream.pending.ids().into_iter().rev() {
            assert_eq!(self.steps.push(self.case.sample(id)).unwrap(), Pushed::Held);
        }
        assert_eq!(self.steps.position(), position);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn steps_over_two_axes_hold_the_room_and_every_sample_once_and_are_the_same_after_any_interruption(case in case()) {
        let undisturbed = case.run(false);
        prop_assert_eq!(case.run(true), undisturbed.clone());
        let all: Vec<u64> = (0..case.samples.len() as u64).collect();
        for (epoch, expected) in (0..).zip(all.chunks(case.per_epoch)) {
            let of_epoch = undisturbed.iter().filter(|step| step.epoch == epoch);
            let mut ids: Vec<u64> = of_epoch.flat_map(|step| &step.batches).flat_map(|it| it.ids.clone()).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, expected);
        }
    }
}
