//! Ten million samples, of which one is as long as a length can be.

use std::sync::LazyLock;

use plimsoll_sampler::{
    BatchPlanner, Lattice, Oversize, PackBudget, PackConfig, PackPlanner, PackStream, PaddedBudget, PlanConfig, Pushed,
    SampleIndex, Split, StepPlanner, StepSize, StreamLimits, StreamPlanner, StreamSample,
};
use plimsoll_types::Bytes;

const N_SAMPLES: u32 = 10_000_000;
const GIANT: u32 = 7_654_321;

static INDEX: LazyLock<SampleIndex<1>> = LazyLock::new(|| {
    let length = |id| if id == GIANT { u32::MAX } else { 1 + id % 89 };
    SampleIndex::try_new([(0..N_SAMPLES).map(length).collect::<Vec<_>>()]).unwrap()
});

#[test]
fn one_giant_is_refused_skipped_or_cut_in_a_plan() {
    let index = INDEX.clone();
    let with = |oversize| {
        let config = PlanConfig { oversize, window: Some(1 << 14), ..PlanConfig::default() };
        BatchPlanner::try_new(index.clone(), PaddedBudget([8_192]), config)
    };
    let message = "plan batches: sample 7654321 has length 4294967295 on axis 0, at most 8192 fits even alone";
    assert_eq!(with(Oversize::Refuse).unwrap_err().to_string(), message);
    let skipping = with(Oversize::Skip).unwrap();
    assert!(skipping.oversize().eq([(GIANT, [u32::MAX])]));
    assert_eq!(skipping.n_planned(), N_SAMPLES as usize - 1);
    let cutting = with(Oversize::Truncate).unwrap();
    let first = cutting.epoch(0).next().unwrap();
    assert!(first.ids.len() as u64 * u64::from(first.cell[0]) <= 8_192);
    let mut steps = StepPlanner::try_new(&cutting, StepSize::Positions(100_000)).unwrap();
    assert!((0..100).all(|_| steps.next_step().batches.iter().all(|batch| batch.padded() <= 8_192)));
    let lattice = Lattice::try_new([vec![32, 89]]).unwrap();
    let config = PlanConfig { lattice, ..PlanConfig::default() };
    let message = "plan batches: sample 7654321 has length 4294967295 on axis 0, at most 89 fits even alone";
    let error = BatchPlanner::try_new(index, PaddedBudget([u64::MAX]), config).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn one_giant_is_refused_or_cut_in_rows() {
    let index = INDEX.clone();
    let refused = PackPlanner::try_new(index.clone(), PackConfig::new(2_048)).unwrap_err().to_string();
    let message = "pack rows: sample 7654321 has length 4294967295, a row of `row_len` 2048 has room for 2048; set a longer \
                   `row_len`, or cut samples";
    assert_eq!(refused, message);
    let config = PackConfig { split: Split::Cut { overlap: 16 }, ..PackConfig::new(2_048) };
    let planner = PackPlanner::try_new(index.clone(), config).unwrap();
    let batch = planner.epoch(0).next_batch(&PackBudget { rows: 4, squares: u64::MAX }).unwrap().unwrap();
    assert_eq!(batch.load().block, 4 * 2_048);
    // As many pieces as a position can tell apart, and one more for each sample.
    let config = PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(1) };
    let error = PackPlanner::try_new(index, config).unwrap_err().to_string();
    assert!(error.starts_with("pack rows: there are ") && error.ends_with("set a longer `row_len`"), "{error}");
}

#[test]
fn one_giant_is_refused_skipped_or_cut_in_a_stream() {
    let limits = StreamLimits { samples: 1_024, bytes: Bytes::mib(64) };
    let giant = StreamSample { id: 7, lengths: [u32::MAX], task: 0, bytes: Bytes(1) };
    let with = |oversize| {
        let config = PlanConfig { oversize, ..PlanConfig::default() };
        StreamPlanner::try_new(PaddedBudget([8_192]), config, limits).unwrap()
    };
    let message = "plan batches: sample 7 has length 4294967295 on axis 0, at most 8192 fits even alone";
    assert_eq!(with(Oversize::Refuse).push(giant).unwrap_err().to_string(), message);
    assert_eq!(with(Oversize::Skip).push(giant), Ok(Pushed::Skipped));
    let mut cutting = with(Oversize::Truncate);
    assert_eq!(cutting.push(giant), Ok(Pushed::Held));
    cutting.finish();
    assert_eq!(cutting.next_batch().unwrap().cell, [8_192]);
    let rows_of = |row_len| {
        let config = PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(row_len) };
        PackStream::try_new(config, limits).unwrap()
    };
    let message =
        "pack a stream: sample 7 would be cut into 268435456 pieces, at most 65536 are held; set a longer `row_len`";
    assert_eq!(rows_of(16).push(giant).unwrap_err().to_string(), message);
    let mut stream = rows_of(1 << 20);
    assert_eq!(stream.push(giant), Ok(Pushed::Held));
    stream.finish();
    let ends: Vec<_> = std::iter::from_fn(|| stream.next_row()).map(|row| row[0].end - row[0].start).collect();
    assert_eq!((ends.len(), ends.iter().map(|it| u64::from(*it)).sum()), (4_096, u64::from(u32::MAX)));
}
