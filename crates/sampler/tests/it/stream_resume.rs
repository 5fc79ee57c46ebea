//! Streams that go on where they were interrupted.

use plimsoll_sampler::{
    Lattice, Objective, Oversize, PaddedBudget, PlanConfig, Pushed, StreamLimits, StreamPlanner, StreamPosition,
    StreamSample, TaskMix,
};
use plimsoll_types::{Bytes, Fraction};
use proptest::prelude::*;

use crate::common::{cases, step_sizes};
use crate::interrupted::{Case, Disturbed, streams};

const LONGEST: u32 = 40;

fn config() -> impl Strategy<Value = PlanConfig<1>> {
    let lattices = prop_oneof![Just(vec![]), Just(vec![4, 9, 16, LONGEST])];
    let mix = (0.0..=1.0, any::<bool>());
    // Only the fewest batches may be multiples.
    let goals = prop_oneof![
        2 => (1u32..3).prop_map(|multiple_of| (multiple_of, Objective::FewestBatches)),
        1 => Just((1, Objective::LeastTime { batch_overhead: 30.0 })),
    ];
    let all = (lattices, mix, goals, any::<u64>());
    all.prop_map(|(edges, (weight, homogeneous), (multiple_of, objective), seed)| PlanConfig {
        seed,
        multiple_of,
        objective,
        lattice: Lattice::try_new([edges]).unwrap(),
        // A budget may become smaller than the longest sample.
        oversize: Oversize::Truncate,
        tasks: TaskMix { diversity_weight: Fraction::try_new(weight).unwrap(), homogeneous, ..TaskMix::default() },
        ..PlanConfig::default()
    })
}

fn case() -> impl Strategy<Value = Case<PaddedBudget<1>, 1>> {
    let lengths = (1..=LONGEST).prop_map(|length| [length]);
    let budgets = (20u64..300).prop_map(|budget| PaddedBudget([budget]));
    // It begins with room for two of the longest.
    streams(PaddedBudget([100]), config(), (lengths, budgets), step_sizes(40, 600))
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn steps_are_the_same_however_often_a_stream_is_interrupted(case in case()) {
        let steps = |disturbed| case.run(disturbed, |_, _, _| ());
        prop_assert_eq!(steps(Disturbed::Interrupted), steps(Disturbed::Never));
    }

    #[test]
    fn samples_come_once_an_epoch_whatever_the_buffers_that_a_stream_goes_on_with(case in case()) {
        case.check_epochs(&case.run(Disturbed::WithOtherBuffers, |_, _, _| ()));
    }
}

fn limits() -> StreamLimits {
    StreamLimits { samples: 20, bytes: Bytes::mib(1) }
}

fn small() -> StreamPlanner<PaddedBudget<1>, 1> {
    StreamPlanner::try_new(PaddedBudget([100]), PlanConfig::default(), limits()).unwrap()
}

fn sample(id: u64) -> StreamSample<1> {
    StreamSample { id, lengths: [10], task: 0, bytes: Bytes(1) }
}

/// A stream that holds samples 0 to 13, of which ten are in a batch.
fn stopped() -> StreamPosition<1> {
    let mut planner = small();
    (0..14).for_each(|id| assert_eq!(planner.push(sample(id)).unwrap(), Pushed::Held));
    planner.position()
}

#[test]
fn a_sample_that_cannot_come_back_is_left_out() {
    let mut planner = small().resume(&stopped()).unwrap();
    (0..14)
        .filter(|id| *id != 4 && *id != 11)
        .for_each(|id| assert_eq!(planner.push(sample(id)).unwrap(), Pushed::Held));
    assert!(planner.next_batch().is_none() && planner.missing().eq([4, 11]));
    assert!(planner.leave_out(4).unwrap() && !planner.leave_out(4).unwrap());
    assert_eq!((planner.position().pending.len(), planner.held().0), (13, 12));
    assert!(planner.leave_out(11).unwrap());
    planner.finish();
    let mut ids: Vec<u64> = std::iter::from_fn(|| planner.next_batch()).flat_map(|batch| batch.ids).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13]);
}

#[test]
fn other_samples_wait_until_those_of_a_position_are_there() {
    let mut planner = small().resume(&stopped()).unwrap();
    planner.push(sample(3)).unwrap();
    let error = planner.push(sample(14)).unwrap_err();
    let message =
        "resume a stream: sample 14 came before 13 that the position holds; push those first, or leave them out";
    assert_eq!(error.to_string(), message);
    // The end of the stream is no end of the wait.
    planner.finish();
    assert!(planner.next_batch().is_none() && planner.missing().count() == 13);
}

#[test]
fn what_a_position_holds_has_room_in_a_smaller_buffer() {
    let limits = StreamLimits { samples: 4, bytes: Bytes(1) };
    let planner = StreamPlanner::try_new(PaddedBudget([100]), PlanConfig::default(), limits);
    assert!(planner.is_err());
    let limits = StreamLimits { samples: 4, bytes: Bytes(2) };
    let planner = StreamPlanner::try_new(PaddedBudget([100]), PlanConfig::default(), limits).unwrap();
    let mut planner = planner.resume(&stopped()).unwrap();
    (0..14)
        .for_each(|id| assert_eq!(planner.push(StreamSample { bytes: Bytes(2), ..sample(id) }).unwrap(), Pushed::Held));
    assert_eq!(planner.push(sample(14)).unwrap(), Pushed::Full);
    assert_eq!(std::iter::from_fn(|| planner.next_batch()).map(|batch| batch.ids.len()).sum::<usize>(), 14);
}

#[test]
fn a_position_of_another_stream_is_refused_by_name() {
    let refused = |config: PlanConfig<1>| {
        let planner = StreamPlanner::try_new(PaddedBudget([100]), config, limits()).unwrap();
        planner.resume(&stopped()).unwrap_err().to_string()
    };
    let message = "resume an epoch: the position was taken with `seed` 0, the plan has 9";
    assert_eq!(refused(PlanConfig { seed: 9, ..PlanConfig::default() }), message);
    let lattice = Lattice::try_new([vec![16]]).unwrap();
    let message = refused(PlanConfig { lattice, ..PlanConfig::default() });
    assert!(message.starts_with("resume an epoch: the position was taken with `fingerprint of the configuration` "));
}

#[test]
fn a_stream_that_resumes_under_a_smaller_rule_goes_on_as_if_it_had_changed_there() {
    let mut changed = small();
    (0..14).for_each(|id| assert_eq!(changed.push(sample(id)).unwrap(), Pushed::Held));
    changed.change(PaddedBudget([30])).unwrap();
    let planner = StreamPlanner::try_new(PaddedBudget([30]), PlanConfig::default(), limits()).unwrap();
    let mut planner = planner.resume(&stopped()).unwrap();
    (0..14).for_each(|id| assert_eq!(planner.push(sample(id)).unwrap(), Pushed::Held));
    assert_eq!(planner.position(), changed.position());
    let batch = planner.next_batch();
    assert_eq!(batch, changed.next_batch());
    assert_eq!(batch.unwrap().ids.len(), 3);
}

#[test]
fn a_position_of_another_version_is_refused_by_it() {
    let saved = serde_json::to_string(&stopped()).unwrap();
    let other = saved.replace("\"version\":3", "\"version\":2").replace("\"pending\":\"", "\"pending\":\"~");
    let error = serde_json::from_str::<StreamPosition<1>>(&other).unwrap_err().to_string();
    let message = "resume an epoch: the position is of `version` 2, this program reads version 3";
    assert!(error.starts_with(message), "{error}");
}
