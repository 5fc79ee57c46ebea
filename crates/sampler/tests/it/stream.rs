//! Streams of unknown length.

use plimsoll_sampler::{
    Oversize, PaddedBudget, PlanConfig, Pushed, StreamBatch, StreamLimits, StreamPlanner, StreamSample, TaskMix,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

fn sample(id: u64, length: u32) -> StreamSample<1> {
    StreamSample {
        id,
        lengths: [length],
        task: u16::from(length.is_multiple_of(3)),
        bytes: Bytes(u64::from(length) * 10),
    }
}

fn planner(limits: StreamLimits, oversize: Oversize) -> StreamPlanner<PaddedBudget<1>, 1> {
    let config = PlanConfig { oversize, ..PlanConfig::default() };
    StreamPlanner::try_new(PaddedBudget([200]), config, limits).unwrap()
}

/// All batches when a batch is taken after every `every` samples, and whenever there is no room.
fn run(lengths: &[u32], limits: StreamLimits, every: usize) -> Vec<StreamBatch<1>> {
    let mut planner = planner(limits, Oversize::Refuse);
    let mut batches = Vec::new();
    for (id, length) in (0..).zip(lengths) {
        while planner.push(sample(id, *length)).unwrap() == Pushed::Full {
            batches.push(planner.next_batch().expect("a full buffer has a batch that is ready"));
        }
        let (n_held, held) = planner.held();
        assert!(n_held <= limits.samples && held <= limits.bytes, "{n_held} samples, {held}");
        if id % every as u64 == 0 {
            batches.extend(planner.next_batch());
        }
    }
    planner.finish();
    while let Some(batch) = planner.next_batch() {
        batches.push(batch);
    }
    assert_eq!((planner.pending().count(), planner.stats().batches), (0, batches.len() as u64));
    batches
}

proptest! {
    #[test]
    fn every_sample_comes_once_within_the_limits_whenever_batches_are_taken(
        lengths in prop::collection::vec(1u32..100, 1..400), n in 2usize..100, bytes in 2_000u64..20_000, every in 1usize..50
    ) {
        let limits = StreamLimits { samples: n, bytes: Bytes(bytes) };
        let batches = run(&lengths, limits, every);
        let mut ids: Vec<u64> = batches.iter().flat_map(|batch| batch.ids.clone()).collect();
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..lengths.len() as u64));
        for batch in &batches {
            let longest = batch.ids.iter().map(|id| lengths[usize::try_from(*id).unwrap()]).max().unwrap();
            prop_assert!(batch.longest == [longest] && batch.ids.len() as u64 * u64::from(longest) <= 200);
        }
        prop_assert_eq!(batches, run(&lengths, limits, 1));
    }
}

#[test]
fn a_larger_buffer_pads_less() {
    let lengths: Vec<u32> = (0..20_000u32).map(|id| id * 7919 % 97 + 1).collect();
    let waste = |samples| {
        let batches = run(&lengths, StreamLimits { samples, bytes: Bytes::mib(1) }, 7);
        let block: u64 = batches.iter().map(|batch| batch.ids.len() as u64 * u64::from(batch.longest[0])).sum();
        1.0 - lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / block as f64
    };
    let (small, large) = (waste(50), waste(1_000));
    assert!(large < 0.05 && small > 2.0 * large, "{small} {large}");
}

#[test]
fn the_statistics_say_how_often_the_buffer_was_full_or_empty() {
    let mut planner = planner(StreamLimits { samples: 4, bytes: Bytes(10_000) }, Oversize::Skip);
    assert!(planner.next_batch().is_none());
    let pushed: Vec<_> = [60, 70, 201, 80, 90, 100].map(|length| planner.push(sample(9, length)).unwrap()).into();
    assert_eq!(pushed, [Pushed::Held, Pushed::Held, Pushed::Skipped, Pushed::Held, Pushed::Held, Pushed::Full]);
    let stats = planner.stats();
    assert_eq!((stats.samples, stats.skipped, stats.times_full, stats.times_empty), (4, 1, 1, 1));
    assert_eq!((stats.most_samples, stats.most_bytes), (4, Bytes(3_000)));
}

#[test]
fn what_a_stream_cannot_hold_is_said_by_id() {
    let limits = StreamLimits { samples: 10, bytes: Bytes(1_000) };
    let mut planner = planner(limits, Oversize::Refuse);
    let refused = |planner: &mut StreamPlanner<_, 1>, id, length, bytes| {
        let sample = StreamSample { id, lengths: [length], task: 0, bytes: Bytes(bytes) };
        planner.push(sample).unwrap_err().to_string()
    };
    let message = "buffer sample 3: it has 501 B, half of the stream's buffer is 500 B";
    assert_eq!(refused(&mut planner, 3, 9, 501), message);
    let message = "plan batches: sample 4 has length 300 on axis 0, at most 200 fits even alone";
    assert_eq!(refused(&mut planner, 4, 300, 10), message);
    assert_eq!(
        refused(&mut planner, 5, 0, 10),
        "index the samples: sample 5 has length 0 on axis 0, it must be at least 1"
    );
    let shares =
        PlanConfig { tasks: TaskMix { shares: Some(vec![1.0]), ..TaskMix::default() }, ..PlanConfig::default() };
    let error = StreamPlanner::<_, 1>::try_new(PaddedBudget([200]), shares, limits).unwrap_err();
    assert_eq!(error.to_string(), "plan a stream: `shares` are for epochs, a stream has the tasks that come");
    let none = StreamLimits { samples: 1, bytes: Bytes(1_000) };
    let error = StreamPlanner::<_, 1>::try_new(PaddedBudget([200]), PlanConfig::default(), none).unwrap_err();
    assert_eq!(error.to_string(), "plan batches: `half of the stream's buffer` is 0, it must be at least 1");
}

#[test]
fn a_sample_that_does_not_fit_alone_is_cut_on_request() {
    let mut planner = planner(StreamLimits { samples: 4, bytes: Bytes(10_000) }, Oversize::Truncate);
    assert_eq!(planner.push(sample(7, 300)).unwrap(), Pushed::Held);
    planner.finish();
    let batch = planner.next_batch().unwrap();
    assert_eq!((batch.ids, batch.longest, planner.stats().truncated), (vec![7], [200], 1));
}

#[test]
fn large_samples_that_cannot_wait_are_not_dropped() {
    let config = PlanConfig { drop_last: true, ..PlanConfig::default() };
    let limits = StreamLimits { samples: 100, bytes: Bytes(100) };
    let mut planner = StreamPlanner::try_new(PaddedBudget([40]), config, limits).unwrap();
    // Four long samples fill a batch; two large ones fill half of the buffer, and no batch.
    for (id, length, bytes) in [(0, 10, 1), (1, 10, 1), (2, 10, 1), (3, 10, 1), (4, 1, 45), (5, 1, 45)] {
        planner.push(StreamSample { id, lengths: [length], task: 0, bytes: Bytes(bytes) }).unwrap();
    }
    let batches: Vec<_> = std::iter::from_fn(|| planner.next_batch()).collect();
    assert_eq!((batches.iter().map(|batch| batch.ids.len()).sum::<usize>(), planner.stats().dropped), (6, 0));
}
