//! Optimizer steps of samples with two axes.

use plimsoll_sampler::{BatchPlanner, PlanConfig, SampleIndex, StepPlanner, StepPosition, StepSize};
use proptest::prelude::*;

use crate::common::{Room, check_step_of_two, lattices_of_two, lengths_of_two, step_sizes};

#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<[u32; 2]>,
    config: PlanConfig<2>,
    size: StepSize,
    /// Steps after which the position is saved and resumed, and those after which another room is followed.
    resumed: Vec<usize>,
    changed: Vec<(usize, u32)>,
}

fn case() -> impl Strategy<Value = Case> {
    let config = (any::<u64>(), prop::option::of(1usize..200), lattices_of_two())
        .prop_map(|(seed, window, lattice)| PlanConfig { seed, window, lattice, ..PlanConfig::default() });
    let lengths = prop::collection::vec(lengths_of_two(), 1..200);
    let size = step_sizes(60, 2000);
    let (resumed, changed) =
        (prop::collection::vec(0usize..30, 0..4), prop::collection::vec((0usize..30, 1260u32..8000), 0..4));
    (lengths, config, size, resumed, changed).prop_map(|(lengths, config, size, resumed, changed)| Case {
        lengths,
        config,
        size,
        resumed,
        changed,
    })
}

impl Case {
    fn planner(&self, room: Room) -> BatchPlanner<Room, 2> {
        let axis = |axis: usize| self.lengths.iter().map(|it| it[axis]).collect::<Vec<_>>();
        BatchPlanner::try_new(SampleIndex::try_new([axis(0), axis(1)]).unwrap(), room, self.config.clone()).unwrap()
    }
}

proptest! {
    #[test]
    fn every_sample_comes_once_whatever_changes_and_a_resumed_epoch_is_the_same(case in case()) {
        let mut room = Room::LEAST;
        let mut steps = StepPlanner::try_new(&case.planner(room), case.size).unwrap();
        let mut ids: Vec<u64> = Vec::new();
        for at in 0.. {
            if case.resumed.contains(&at) {
                let saved = serde_json::to_string(&steps.position()).unwrap();
                let position: StepPosition = serde_json::from_str(&saved).unwrap();
                let resumed = StepPlanner::resume(&case.planner(room), case.size, &position).unwrap();
                prop_assert_eq!(resumed.clone().next_step(), steps.next_step());
                steps = resumed;
            }
            if let Some((_, changed)) = case.changed.iter().find(|it| it.0 == at) {
                room = Room(*changed);
                steps.change(room).unwrap();
            }
            let step = steps.next_step();
            check_step_of_two(&step, (room, case.size), |id| case.lengths[usize::try_from(id).unwrap()]);
            ids.extend(step.batches.iter().flat_map(|batch| &batch.ids));
            if step.ends_epoch {
                break;
            }
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..case.lengths.len() as u64).collect::<Vec<_>>());
    }
}
