//! Optimizer steps of samples with two axes.

use plimsoll_sampler::{
    BatchPlanner, CapacityRule, Lattice, PlanConfig, PlannedStep, SampleIndex, StepPlanner, StepPosition, StepSize,
};
use proptest::prelude::*;

use crate::common::{check_size, step_sizes};

const LONGEST: [u32; 2] = [9, 30];

/// What fits by images and by the square of words.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room(u32);

impl CapacityRule<2> for Room {
    fn capacity(&self, [images, words]: [u32; 2]) -> u32 {
        self.0 / (40 * images + words * words)
    }
}

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
    let edges = prop_oneof![Just([vec![], vec![]]), Just([vec![1, 4, 9], vec![6, 30]]), Just([vec![], vec![10, 30]])];
    let config = (any::<u64>(), prop::option::of(1usize..200), edges).prop_map(|(seed, window, edges)| PlanConfig {
        seed,
        window,
        lattice: Lattice::try_new(edges).unwrap(),
        ..PlanConfig::default()
    });
    let lengths = prop::collection::vec((1..=LONGEST[0], 1..=LONGEST[1]).prop_map(|(a, b)| [a, b]), 1..200);
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

    fn lengths_of(&self, id: u64) -> [u32; 2] {
        self.lengths[usize::try_from(id).unwrap()]
    }

    /// What must be true of a step on its own.
    fn check(&self, step: &PlannedStep<2>, room: Room) {
        for batch in &step.batches {
            assert!(!batch.ids.is_empty() && batch.ids.len() <= room.capacity(batch.cell) as usize, "{step:?}");
            let holds = |id: &u64| self.lengths_of(*id).iter().zip(batch.cell).all(|(length, edge)| *length <= edge);
            assert!(batch.ids.iter().all(holds), "{step:?}");
        }
        let padded = |it: &plimsoll_sampler::StepBatch<2>| it.padded();
        assert!(step.batches.iter().map(padded).is_sorted_by(|a, b| a >= b), "the largest comes first");
        let ids = step.batches.iter().flat_map(|batch| &batch.ids);
        let positions: Vec<_> = ids.map(|id| self.lengths_of(*id).map(u64::from).iter().product()).collect();
        check_size(step, self.size, &positions);
    }
}

proptest! {
    #[test]
    fn every_sample_comes_once_whatever_changes_and_a_resumed_epoch_is_the_same(case in case()) {
        let mut room = Room(1260);
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
            case.check(&step, room);
            ids.extend(step.batches.iter().flat_map(|batch| &batch.ids));
            if step.ends_epoch {
                break;
            }
        }
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..case.lengths.len() as u64).collect::<Vec<_>>());
    }
}
