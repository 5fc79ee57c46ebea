//! Streams that are packed.

use std::collections::BTreeMap;

use plimsoll_sampler::{
    EpochCursor, PackBudget, PackConfig, PackStream, PackStreamPosition, PackStreamStepPosition, PackStreamSteps,
    PackedRows, PackedStep, Piece, Pushed, Split, StepSize, StreamLimits, StreamSample,
};
use plimsoll_types::Bytes;
use proptest::prelude::*;

use crate::common::{cases, step_sizes, stream_limits};

type Steps = PackStreamSteps<PackBudget>;

#[derive(Clone, Debug)]
struct Case {
    /// Length, and whether a step is taken afterwards.
    samples: Vec<(u32, bool)>,
    config: PackConfig,
    limits: StreamLimits,
    size: StepSize,
    budget: PackBudget,
    per_epoch: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let config = (20u32..60, prop::option::of(300u64..2_000), 0u32..8, any::<u64>());
    let config = config.prop_map(|(row_len, row_squares, overlap, seed)| PackConfig {
        row_squares,
        split: Split::Cut { overlap },
        seed,
        ..PackConfig::new(row_len)
    });
    let size = step_sizes(40, 600);
    let limits = stream_limits();
    let samples = prop::collection::vec((prop_oneof![9 => 1u32..60, 1 => 1u32..300], any::<bool>()), 1..120);
    (samples, config, limits, size, 1u32..5, 1usize..100).prop_map(
        |(samples, config, limits, size, rows, per_epoch)| Case {
            samples,
            config,
            limits,
            size,
            budget: PackBudget { rows, squares: u64::MAX },
            per_epoch,
        },
    )
}

struct Run<'a> {
    case: &'a Case,
    /// Whether it is interrupted whenever it can be.
    disturbed: bool,
    steps: Steps,
    taken: Vec<PackedStep<u64>>,
}

impl Case {
    fn stream(&self) -> PackStream {
        PackStream::try_new(self.config, self.limits).unwrap()
    }

    fn sample(&self, id: u64) -> StreamSample<1> {
        let (length, _) = self.samples[usize::try_from(id).unwrap()];
        StreamSample { id, lengths: [length], task: 0, bytes: Bytes(id % 4 * 133 + 1) }
    }

    fn run(&self, disturbed: bool) -> Vec<PackedStep<u64>> {
        let steps = Steps::try_new(self.stream(), self.size, self.budget).unwrap();
        let mut run = Run { case: self, disturbed, steps, taken: Vec::new() };
        for (at, (_, take)) in self.samples.iter().enumerate() {
            if at > 0 && at % self.per_epoch == 0 {
                run.steps.finish();
                run.disturb();
            }
            run.push(at as u64);
            if *take {
                run.take();
            }
        }
        run.steps.finish();
        while run.take() {}
        assert_eq!(run.steps.held(), (0, Bytes::ZERO));
        run.taken
    }

    /// What must be true of a step.
    fn check(&self, step: &PackedStep<u64>) {
        let (mut n_samples, mut n_positions) = (0, 0);
        for rows in &step.batches {
            assert!(rows.len() <= self.budget.rows as usize && rows.row_len() == self.config.row_len);
            for row in rows.iter() {
                let lengths = || row.iter().map(|piece| u64::from(piece.len()));
                assert!(lengths().sum::<u64>() <= u64::from(self.config.row_len), "{row:?}");
                let squares = lengths().map(|length| length * length).sum::<u64>();
                assert!(self.config.row_squares.is_none_or(|most| squares <= most), "{row:?}");
                n_samples += row.iter().filter(|piece| piece.start == 0).count() as u64;
                n_positions += lengths().sum::<u64>();
            }
        }
        let taken = step.span.end - step.span.start;
        match self.size {
            StepSize::Positions(n) => {
                assert_eq!(taken, n_positions);
                assert!(step.span.end >= (step.span.start / n + 1) * n || step.ends_epoch, "{step:?}");
            }
            StepSize::Samples(n) => {
                assert_eq!(taken, n_samples);
                assert!(step.span.end >= (step.span.start / u64::from(n) + 1) * u64::from(n) || step.ends_epoch);
            }
            StepSize::Batch => assert_eq!((taken, step.batches.len()), (n_samples, 1)),
        }
    }
}

impl Run<'_> {
    fn push(&mut self, id: u64) {
        while self.steps.push(self.case.sample(id)).unwrap() == Pushed::Full {
            assert!(self.take(), "a full buffer has a step");
        }
        let (n_held, held) = self.steps.held();
        assert!(n_held <= self.case.limits.samples && held <= self.case.limits.bytes);
        self.disturb();
    }

    fn take(&mut self) -> bool {
        let step = self.steps.next_step().unwrap();
        let is_step = step.is_some();
        self.taken.extend(step);
        self.disturb();
        is_step
    }

    fn disturb(&mut self) {
        if !self.disturbed {
            return;
        }
        let position = self.steps.position();
        let saved = serde_json::to_string(&position).unwrap();
        let read: PackStreamStepPosition = serde_json::from_str(&saved).unwrap();
        assert_eq!(read, position);
        self.steps = Steps::resume(self.case.stream(), self.case.size, self.case.budget, &read).unwrap();
        assert!(self.steps.missing().eq(read.stream.pending()));
        for id in read.stream.pending().into_iter().rev() {
            assert_eq!((self.steps.next_step().unwrap(), self.steps.position()), (None, position.clone()));
            assert_eq!(self.steps.push(self.case.sample(id)).unwrap(), Pushed::Held);
        }
        assert_eq!(self.steps.position(), position);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn steps_of_rows_are_the_same_however_often_a_stream_is_interrupted(case in case()) {
        prop_assert_eq!(case.run(true), case.run(false));
    }

    #[test]
    fn every_position_comes_once_in_its_epoch(case in case()) {
        let mut before = (0, 0);
        let mut pieces: BTreeMap<u64, Vec<Piece<u64>>> = BTreeMap::new();
        for step in case.run(false) {
            case.check(&step);
            prop_assert_eq!((step.epoch, step.span.start), before);
            before = if step.ends_epoch { (step.epoch + 1, 0) } else { (step.epoch, step.span.end) };
            let epoch = pieces.entry(step.epoch).or_default();
            epoch.extend(step.batches.iter().flat_map(PackedRows::iter).flatten());
        }
        prop_assert_eq!(before.0, case.samples.len().div_ceil(case.per_epoch) as u64);
        let Split::Cut { overlap } = case.config.split else { unreachable!() };
        for (epoch, mut pieces) in pieces {
            pieces.sort_unstable();
            let mut pieces = pieces.into_iter().peekable();
            let first = epoch * case.per_epoch as u64;
            let last = (first + case.per_epoch as u64).min(case.samples.len() as u64);
            for id in first..last {
                let mut end = 0;
                while let Some(piece) = pieces.next_if(|piece| piece.id == id) {
                    prop_assert_eq!(piece.start, if end == 0 { 0 } else { end - overlap });
                    end = piece.end;
                }
                prop_assert_eq!(end, case.samples[usize::try_from(id).unwrap()].0);
            }
            prop_assert_eq!(pieces.next(), None);
        }
    }
}

fn limits(samples: usize) -> StreamLimits {
    StreamLimits { samples, bytes: Bytes::mib(1) }
}

fn sample(id: u64, length: u32) -> StreamSample<1> {
    StreamSample { id, lengths: [length], task: 0, bytes: Bytes(1) }
}

#[test]
fn rows_of_a_stream_are_full_and_its_position_is_small() {
    const N_SAMPLES: u64 = 10_000_000;
    let mut stream = PackStream::try_new(PackConfig::new(2_048), limits(1_024)).unwrap();
    let mut cursor = EpochCursor::try_new(N_SAMPLES, 3).unwrap();
    let (mut largest, mut filled, mut n_rows, mut n_held) = (0, 0, 0, 0);
    for _ in 0..6_000 {
        let id = cursor.take(1).1[0];
        let length = 8 + u32::try_from(id * 7919 % 600).unwrap();
        while stream.push(sample(id, length)).unwrap() == Pushed::Full {
            filled += stream.next_row().unwrap().iter().map(Piece::len).sum::<u32>();
            n_rows += 1;
            largest = largest.max(serde_json::to_string(&stream.position()).unwrap().len());
            n_held = n_held.max(stream.held().0);
        }
    }
    assert!(n_held > 1_000 && largest <= 4_096, "{n_held} samples in {largest} bytes");
    let filled = f64::from(filled) / f64::from(n_rows * 2_048);
    assert!(filled > 0.995, "{filled}");
}

#[test]
fn a_sample_of_rows_that_cannot_come_back_is_left_out() {
    let config = PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(10) };
    let fresh = || PackStream::try_new(config, limits(8)).unwrap();
    let mut stream = fresh();
    for (id, length) in [(0, 25), (1, 3), (2, 4), (3, 7)] {
        stream.push(sample(id, length)).unwrap();
    }
    let mut resumed = fresh().resume(&stream.position()).unwrap();
    assert_eq!(resumed.push(sample(1, 3)).unwrap(), Pushed::Held);
    assert!(resumed.leave_out(0) && !resumed.leave_out(0) && resumed.next_row().is_none());
    assert_eq!(resumed.position().pending(), [1, 2, 3]);
    let error = resumed.push(sample(9, 3)).unwrap_err().to_string();
    assert!(error.starts_with("resume a stream: sample 9 came before 2 that the position holds"), "{error}");
    resumed.push(sample(3, 7)).unwrap();
    // It is longer than it was, and has no place in its row.
    resumed.push(sample(2, 9)).unwrap();
    resumed.finish();
    let mut pieces: Vec<_> = std::iter::from_fn(|| resumed.next_row()).flatten().collect();
    pieces.sort_unstable();
    let whole = |id, end| Piece { id, start: 0, end };
    assert_eq!(pieces, [whole(1, 3), whole(2, 9), whole(3, 7)]);
}

#[test]
fn what_a_packed_stream_cannot_hold_is_said_by_id() {
    let mut stream = PackStream::try_new(PackConfig::new(10), limits(8)).unwrap();
    let refused = |stream: &mut PackStream, sample| stream.push(sample).unwrap_err().to_string();
    let giant = "pack rows: sample 4 has length 4294967295, a row of `row_len` 10 has room for 10; set a longer `row_len`, \
                 or cut samples";
    assert_eq!(refused(&mut stream, sample(4, u32::MAX)), giant);
    assert!(refused(&mut stream, sample(5, 0)).contains("sample 5 has length 0"));
    let large = StreamSample { bytes: Bytes::mib(1), ..sample(6, 3) };
    assert!(refused(&mut stream, large).starts_with("buffer sample 6: it has 1.00 MiB"));
    stream.push(sample(7, 3)).unwrap();
    assert_eq!(refused(&mut stream, sample(7, 3)), "pack a stream: sample 7 came again while a piece of it is held");
    let error = PackStream::try_new(PackConfig::new(0), limits(8)).unwrap_err();
    assert_eq!(error.to_string(), "plan batches: `row_len` is 0, it must be at least 1");
    let other = PackStream::try_new(PackConfig::new(11), limits(8)).unwrap().resume(&stream.position()).unwrap_err();
    assert!(other.to_string().contains("`fingerprint of the configuration`"), "{other}");
}

proptest! {
    #[test]
    fn any_position_is_read_or_refused(
        pieces in "[0-9a-z.:=]{0,40}", numbers in "[0-9a-z.:=]{0,20}", has_carried: bool
    ) {
        let stream = PackStream::try_new(PackConfig::new(10), limits(8)).unwrap();
        let mut saved = serde_json::to_value(stream.position()).unwrap();
        saved["pieces"] = pieces.into();
        saved["numbers"] = numbers.into();
        saved["has_carried"] = has_carried.into();
        if let Ok(position) = serde_json::from_value::<PackStreamPosition>(saved)
            && let Ok(mut stream) = stream.resume(&position)
        {
            for id in position.pending() {
                let _ = stream.push(sample(id, 7));
            }
        }
    }
}
