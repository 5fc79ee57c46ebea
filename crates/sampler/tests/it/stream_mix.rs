//! Streams of several sources.

use std::collections::{HashMap, HashSet};

use plimsoll_sampler::{
    EpochEnd, MixCursor, MixDraw, MixPosition, MixedStream, PaddedBudget, PlanConfig, Pushed, StreamLimits, StreamMix,
    StreamPlanner, StreamSample, TaskMix, mixed_stream,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

/// The samples of a source: their ids say which it is, how often it came, and their place in it.
fn samples(source: usize, round: u64, n: u64) -> impl Iterator<Item = StreamSample<1>> + Clone {
    let id = move |place| source as u64 * 1_000_000_000 + round * 10_000 + place;
    let length = move |place: u64| 1 + u32::try_from((place * 7919 + source as u64 * 31) % 97).unwrap();
    (0..n).map(move |place| StreamSample { id: id(place), lengths: [length(place)], task: 0, bytes: Bytes(1) })
}

fn mix(weights: &[u32], ends: EpochEnd) -> TaskMix {
    let shares = Some(weights.iter().map(|weight| f64::from(*weight)).collect());
    TaskMix { shares, ends, normalize_shares: true, ..TaskMix::default() }
}

fn ends() -> impl Strategy<Value = EpochEnd> {
    prop_oneof![Just(EpochEnd::AllOnce), Just(EpochEnd::FirstExhausted), Just(EpochEnd::LastExhausted)]
}

fn epoch<F, I>(stream: &mut MixedStream<F, I>) -> Vec<StreamSample<1>>
where
    F: FnMut(usize, u64, u64) -> I,
    I: Iterator<Item = StreamSample<1>>,
{
    stream.map(Result::unwrap).collect()
}

proptest! {
    #[test]
    fn sources_have_their_shares_from_the_start_and_epochs_end_as_they_should(
        sources in prop::collection::vec((1u32..100, 1u64..60), 1..6), ends in ends()
    ) {
        let weights: Vec<u32> = sources.iter().map(|it| it.0).collect();
        let sum = f64::from(weights.iter().sum::<u32>());
        let open = |source: usize, _epoch: u64, round: u64| samples(source, round, sources[source].1);
        let mut stream = mixed_stream(&mix(&weights, ends), open).unwrap();
        for number in 0..3 {
            prop_assert_eq!(stream.position().epoch, number);
            let samples = epoch(&mut stream);
            let mut taken = vec![0u64; sources.len()];
            let mut all_there = true;
            for (step, sample) in (1..).zip(&samples) {
                let source = usize::from(sample.task);
                prop_assert_eq!(sample.id / 1_000_000_000, source as u64);
                prop_assert_eq!(sample.id % 10_000 + sample.id / 10_000 % 100_000 * sources[source].1, taken[source]);
                taken[source] += 1;
                all_there &= ends != EpochEnd::AllOnce || taken.iter().zip(&sources).all(|(n, of)| *n < of.1);
                for (taken, weight) in taken.iter().zip(&weights) {
                    let off = f64::from(*weight) / sum * f64::from(step) - *taken as f64;
                    prop_assert!(!all_there || off.abs() < 1.0, "{} after {}", off, step);
                }
            }
            let sizes = || taken.iter().zip(&sources);
            match ends {
                EpochEnd::AllOnce => prop_assert!(sizes().all(|(n, of)| *n == of.1)),
                EpochEnd::FirstExhausted => prop_assert!(sizes().all(|(n, of)| *n <= of.1) && sizes().any(|(n, of)| *n == of.1)),
                EpochEnd::LastExhausted => prop_assert!(sizes().all(|(n, of)| *n >= of.1) && sizes().any(|(n, of)| *n == of.1)),
            }
        }
    }

    #[test]
    fn a_mix_that_resumes_goes_on_with_the_same_samples(
        sources in prop::collection::vec((1u32..9, 1u64..12), 1..4), ends in ends(), at in 0usize..60
    ) {
        let weights: Vec<u32> = sources.iter().map(|it| it.0).collect();
        let open = |source: usize, epoch: u64, round: u64| samples(source, 10 * epoch + round, sources[source].1);
        let mix = mix(&weights, ends);
        let mut whole = mixed_stream(&mix, open).unwrap();
        // Ends of epochs are steps of their own.
        let before: Vec<_> = (0..at).map(|_| whole.next()).collect();
        let saved = serde_json::to_string(&whole.position()).unwrap();
        let position: MixPosition = serde_json::from_str(&saved).unwrap();
        let mut resumed = MixedStream::resume(&mix, &position, open).unwrap();
        prop_assert_eq!(before.len(), at);
        for _ in 0..60 {
            prop_assert_eq!(whole.next(), resumed.next());
        }
    }
}

#[test]
fn any_twenty_batches_of_a_stream_have_the_shares_of_its_sources() {
    let shares = [0.4, 0.25, 0.2, 0.1, 0.05];
    let mix = TaskMix { shares: Some(shares.to_vec()), ends: EpochEnd::LastExhausted, ..TaskMix::default() };
    let sizes = [4_000, 2_000, 5_000, 700, 300];
    let stream = mixed_stream(&mix, |source: usize, _, round| samples(source, round, sizes[source])).unwrap();
    let limits = StreamLimits { samples: 2_000, bytes: Bytes::mib(1) };
    let mut planner = StreamPlanner::try_new(PaddedBudget([1_000]), PlanConfig::default(), limits).unwrap();
    let (mut batches, mut tasks) = (Vec::new(), HashMap::new());
    for sample in stream.map(Result::unwrap) {
        tasks.insert(sample.id, sample.task);
        while planner.push(sample).unwrap() == Pushed::Full {
            batches.push(planner.next_batch().unwrap());
        }
    }
    planner.finish();
    batches.extend(std::iter::from_fn(|| planner.next_batch()));
    let largest = batches.iter().map(|batch| batch.ids.len()).max().unwrap() as f64;
    let mut most = 0.0_f64;
    for stretch in batches.windows(20) {
        let ids: Vec<_> = stretch.iter().flat_map(|batch| &batch.ids).collect();
        for (task, share) in (0u16..).zip(shares) {
            let n = ids.iter().filter(|id| tasks[**id] == task).count();
            most = most.max((n as f64 - share * ids.len() as f64).abs());
        }
    }
    // A batch of the shortest samples has hundreds.
    assert!(most < 4.0 && largest > 200.0, "off by {most} samples, the largest batch has {largest}");
}

#[test]
fn what_no_mix_of_streams_can_be_is_refused() {
    let refused = |mix: &TaskMix| StreamMix::try_new(mix).unwrap_err().to_string();
    let message = "mix streams: `shares` are not set, and nobody knows how long the sources are";
    assert_eq!(refused(&TaskMix::default()), message);
    let of = |shares: &[f64]| TaskMix { shares: Some(shares.to_vec()), ..TaskMix::default() };
    assert_eq!(refused(&of(&[1.5, -0.5])), "mix streams: the share of source 1 is -0.5, it must be a number from 0");
    assert!(refused(&of(&[0.5, 0.25])).contains("sum to 0.75, not to 1"));
    assert!(refused(&TaskMix { normalize_shares: true, ..of(&[0.0, 0.0]) }).contains("sum to 0, not to 1"));
    let mut stream =
        mixed_stream(&mix(&[1, 1], EpochEnd::LastExhausted), |source: usize, _, _| samples(source, 0, source as u64))
            .unwrap();
    let message = "mix streams: source 0 has no samples, and would have to begin again without end";
    assert_eq!(stream.find_map(Result::err).unwrap().to_string(), message);
    let position = StreamMix::try_new(&of(&[0.5, 0.5])).unwrap().position();
    let error = StreamMix::resume(&of(&[0.25, 0.75]), &position).unwrap_err().to_string();
    assert!(
        error.starts_with("resume an epoch: the position was taken with `fingerprint of the task shares` "),
        "{error}"
    );
}

/// Sources of these sizes, whose shares are as these weights.
fn cursor(sources: &[(u32, u64)], ends: EpochEnd, seed: u64) -> (TaskMix, Vec<u64>, MixCursor) {
    let (weights, sizes): (Vec<u32>, Vec<u64>) = sources.iter().copied().unzip();
    let mix = mix(&weights, ends);
    let cursor = MixCursor::try_new(&mix, &sizes, seed).unwrap();
    (mix, sizes, cursor)
}

proptest! {
    #[test]
    fn a_cursor_draws_each_sample_of_a_round_once_and_from_the_sources_that_their_shares_name(
        sources in prop::collection::vec((1u32..100, 1u64..60), 1..6), ends in ends(), seed: u64
    ) {
        let (mix, sizes, mut cursor) = cursor(&sources, ends, seed);
        let open = |source: usize, _epoch: u64, round: u64| samples(source, round, sizes[source]);
        let mut stream = mixed_stream(&mix, open).unwrap();
        for number in 0..3 {
            let mut seen = HashSet::new();
            for (sample, is_last) in mark_last(&epoch(&mut stream)) {
                let MixDraw { epoch, round, id, ends_epoch } = cursor.take();
                let first: u64 = sizes[..usize::from(sample.task)].iter().sum();
                prop_assert!((first..first + sizes[usize::from(sample.task)]).contains(&id), "{} of {:?}", id, sample);
                prop_assert_eq!((epoch, round, ends_epoch), (number, sample.id / 10_000 % 100_000, is_last));
                prop_assert!(seen.insert((round, id)), "{} comes twice", id);
            }
        }
    }

    #[test]
    fn a_cursor_that_resumes_draws_what_one_draws_that_was_not_interrupted(
        sources in prop::collection::vec((1u32..9, 1u64..12), 1..4), ends in ends(), seed: u64, at in 0usize..60
    ) {
        let (mix, sizes, mut whole) = cursor(&sources, ends, seed);
        (0..at).for_each(|_| _ = whole.take());
        let saved = serde_json::to_string(&whole.position()).unwrap();
        let position: MixPosition = serde_json::from_str(&saved).unwrap();
        let mut resumed = MixCursor::resume(&mix, &sizes, seed, &position).unwrap();
        for _ in 0..60 {
            prop_assert_eq!(whole.take(), resumed.take());
        }
    }
}

fn mark_last<T: Copy>(items: &[T]) -> impl Iterator<Item = (T, bool)> {
    items.iter().enumerate().map(|(at, it)| (*it, at + 1 == items.len()))
}

#[test]
fn each_round_and_each_epoch_of_a_source_has_an_order_of_its_own() {
    let (_, _, mut cursor) = cursor(&[(1, 40), (1, 120)], EpochEnd::LastExhausted, 5);
    let mut orders: Vec<Vec<u64>> = vec![Vec::new(); 6];
    while cursor.position().epoch < 2 {
        let MixDraw { epoch, round, id, .. } = cursor.take();
        // A source ends when its turn comes again: then the other one has begun another round.
        if id < 40 && round < 3 {
            orders[usize::try_from(3 * epoch + round).unwrap()].push(id);
        }
    }
    assert!(orders.iter().all(|order| order.len() == 40), "{orders:?}");
    assert_eq!(orders.iter().collect::<HashSet<_>>().len(), 6);
}

#[test]
fn what_no_cursor_over_sources_can_be_is_refused() {
    let of = |shares: &[f64]| TaskMix { shares: Some(shares.to_vec()), ..TaskMix::default() };
    let refused = |shares: &[f64], sizes: &[u64]| MixCursor::try_new(&of(shares), sizes, 0).unwrap_err().to_string();
    assert!(MixCursor::try_new(&TaskMix::default(), &[3], 0).unwrap_err().to_string().contains("`shares` are not set"));
    assert_eq!(refused(&[0.5, 0.5], &[3]), "plan batches: there are 2 task shares for 1 tasks");
    assert!(refused(&[0.5, 0.25], &[3, 3]).contains("sum to 0.75, not to 1"));
    assert!(refused(&[1.0, 0.0], &[3, 3]).contains("the share of task 1 is 0"));
    assert!(refused(&[0.5, 0.5], &[3, 0]).contains("source 1 has no samples"));
    let (mix, sizes, mut cursor) = cursor(&[(1, 3), (1, 5)], EpochEnd::AllOnce, 0);
    (0..6).for_each(|_| _ = cursor.take());
    let resumed = |sizes: &[u64]| MixCursor::resume(&mix, sizes, 0, &cursor.position());
    let message = "resume an epoch: the position says `samples of a source` 3, at most 2 is possible";
    assert_eq!(resumed(&[2, 5]).unwrap_err().to_string(), message);
    assert!(resumed(&sizes).is_ok());
    let used_up = serde_json::to_string(&cursor.position()).unwrap().replace("false", "true");
    let position: MixPosition = serde_json::from_str(&used_up.replacen("true", "false", 1)).unwrap();
    let message = "resume an epoch: the position says `sources that are used up` 2, at most 1 is possible";
    assert_eq!(MixCursor::resume(&mix, &sizes, 0, &position).unwrap_err().to_string(), message);
}
