//! Packed rows, over random configurations.

use plimsoll_sampler::{
    PackBudget, PackConfig, PackPlanner, PackPosition, PackReport, PackSteps, PackedRows, Piece, SampleIndex, Split,
    StepSize, TaskMix,
};
use proptest::prelude::*;

use crate::common::{Numbers, chats, speech};

fn planner(lengths: Vec<u32>, config: PackConfig) -> PackPlanner {
    PackPlanner::try_new(SampleIndex::try_new([lengths]).unwrap(), config).unwrap()
}

#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<u32>,
    config: PackConfig,
    epoch: u64,
    overlap: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let lengths = prop::collection::vec(prop_oneof![1u32..40, 1u32..400], 1..300);
    let squares = prop::option::of(1u64..40_000);
    (lengths, 1u32..300, squares, 0.0..1.0, any::<u64>(), prop::option::of(1usize..80), 0u64..5).prop_map(
        |(lengths, row_len, row_squares, part, seed, window, epoch)| {
            let piece = row_len.min(u32::try_from(row_squares.unwrap_or(u64::MAX).isqrt().min(1 << 20)).unwrap());
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
            let overlap = (part * f64::from(piece)) as u32;
            let config = PackConfig { row_len, row_squares, split: Split::Cut { overlap }, seed, window };
            Case { lengths, config, epoch, overlap }
        },
    )
}

/// All pieces, by sample and place.
pub(crate) fn pieces(rows: &PackedRows) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = rows.iter().flatten().copied().collect();
    pieces.sort_unstable();
    pieces
}

/// Each sample is whole, and every further piece repeats as much as was asked for.
#[track_caller]
pub(crate) fn check_whole(pieces: &[Piece], lengths: &[u32], overlap: u32) {
    let mut all = pieces.chunk_by(|a, b| a.id == b.id);
    for (id, length) in (0..).zip(lengths) {
        let of = all.next().unwrap();
        assert_eq!((of[0].id, of[0].start, of[of.len() - 1].end), (id, 0, *length));
        assert!(
            of.windows(2).all(|pair| pair[1].start + overlap == pair[0].end && pair[0].end < pair[1].end),
            "{of:?}"
        );
    }
    assert!(all.next().is_none());
}

proptest! {
    #[test]
    fn every_position_comes_as_often_as_asked_and_no_row_is_over_its_limits(case in case()) {
        let rows = planner(case.lengths.clone(), case.config).plan_epoch(case.epoch);
        check_whole(&pieces(&rows), &case.lengths, case.overlap);
        for row in rows.iter() {
            let lengths = row.iter().map(|piece| u64::from(piece.len()));
            prop_assert!(!row.is_empty() && lengths.clone().sum::<u64>() <= u64::from(case.config.row_len));
            prop_assert!(lengths.map(|length| length * length).sum::<u64>() <= case.config.row_squares.unwrap_or(u64::MAX));
        }
    }

    #[test]
    fn no_batch_is_over_budget_and_rows_do_not_depend_on_it(case in case(), n in prop::collection::vec((1u32..6, 0u64..100_000), 1..5)) {
        let planner = planner(case.lengths, case.config);
        let most = case.config.row_squares.unwrap_or(u64::MAX).min(u64::from(case.config.row_len).pow(2));
        let (mut epoch, mut rows) = (planner.epoch(case.epoch), Vec::new());
        for (rows_of, more) in n.iter().cycle() {
            let budget = PackBudget { rows: *rows_of, squares: most + more };
            planner.check(&budget).unwrap();
            let Some(batch) = epoch.next_batch(&budget).unwrap() else { break };
            let squares: u64 = batch.iter().flatten().map(|piece| u64::from(piece.len()).pow(2)).sum();
            prop_assert!(batch.len() <= *rows_of as usize && squares <= budget.squares);
            rows.extend(batch.iter().map(<[Piece]>::to_vec));
        }
        prop_assert!(planner.plan_epoch(case.epoch).iter().eq(rows.iter().map(Vec::as_slice)));
    }

    #[test]
    fn a_resumed_epoch_goes_on_as_an_uninterrupted_one(case in case(), n_before in 0usize..100) {
        let planner = planner(case.lengths, case.config);
        let one = PackBudget { rows: 1, squares: u64::MAX };
        let mut epoch = planner.epoch(case.epoch);
        for _ in 0..n_before {
            epoch.next_batch(&one).unwrap();
        }
        let position: PackPosition = serde_json::from_str(&serde_json::to_string(&epoch.position()).unwrap()).unwrap();
        let mut resumed = planner.resume(&position).unwrap();
        prop_assert_eq!(resumed.position(), position);
        while let Some(batch) = epoch.next_batch(&one).unwrap() {
            prop_assert_eq!(Some(batch), resumed.next_batch(&one).unwrap());
        }
        prop_assert!(resumed.next_batch(&one).unwrap().is_none());
    }

    #[test]
    fn boundaries_positions_and_masks_say_the_same(case in case()) {
        let rows = planner(case.lengths, PackConfig { row_len: case.config.row_len.min(40), row_squares: None, split: Split::Cut { overlap: 0 }, ..case.config });
        let rows = rows.epoch(case.epoch).next_batch(&PackBudget { rows: 3, squares: u64::MAX }).unwrap().unwrap();
        let (n, len) = (rows.len(), rows.row_len() as usize);
        let (mut ends, mut places, mut segments) = (Vec::new(), vec![9; n * len], vec![9; n * len]);
        rows.cu_seqlens(&mut ends);
        rows.position_ids(&mut places);
        rows.segment_ids(&mut segments);
        let mut ids = vec![7; n * len];
        rows.collate(u32::MAX, &mut ids, |piece, into| into.fill(piece.id));
        let mut masks = [vec![true; n * len * len], vec![true; n * len * len]];
        rows.block_mask(false, &mut masks[0]);
        rows.block_mask(true, &mut masks[1]);
        // By definition, position by position.
        let mut expected_ends = vec![0];
        for (row, of) in rows.iter().enumerate() {
            let real = of.iter().zip(1..).flat_map(|(piece, number)| (0..piece.len()).map(move |place| (number, place)));
            let expected: Vec<(u32, u32)> = real.chain(std::iter::repeat((0, 0))).take(len).collect();
            for q in 0..len {
                prop_assert_eq!((segments[row * len + q], places[row * len + q]), expected[q]);
                let id = (expected[q].0 as usize).checked_sub(1).map_or(u32::MAX, |number| of[number].id);
                prop_assert_eq!(ids[row * len + q], id);
                if q + 1 == len || expected[q].0 != expected[q + 1].0 {
                    expected_ends.push(u32::try_from(row * len + q + 1).unwrap());
                }
                for k in 0..len {
                    let same = expected[q].0 == expected[k].0;
                    let at = (row * len + q) * len + k;
                    prop_assert_eq!((masks[0][at], masks[1][at]), (same, same && k <= q));
                }
            }
        }
        prop_assert_eq!(ends, expected_ends);
    }

    #[test]
    fn steps_have_every_row_once_and_resume(case in case(), size in prop_oneof![(1u32..50).prop_map(StepSize::Samples), (1u64..900).prop_map(StepSize::Positions), Just(StepSize::Batch)], n_before in 0usize..20, rows in 1u32..5) {
        let planner = planner(case.lengths, case.config);
        let budget = PackBudget { rows, squares: u64::MAX };
        let mut steps = PackSteps::try_new(&planner, size).unwrap();
        let (mut seen, mut taken) = (Vec::new(), 0);
        loop {
            let step = steps.next_step(&budget).unwrap();
            prop_assert!(!step.batches.is_empty() && step.epoch == 0 && step.span.start == taken);
            prop_assert!(step.batches.iter().all(|batch| !batch.is_empty() && batch.len() <= rows as usize));
            let (whole, n_rows) = (step.divided(rows, n_before), step.batches.iter().map(PackedRows::len).sum::<usize>());
            let sizes: Vec<_> = whole.iter().map(Vec::len).collect();
            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            prop_assert!(1 <= least && most <= least + 1 && most <= rows as usize, "{:?}", sizes);
            prop_assert!(n_before.min(n_rows) <= sizes.len(), "{:?} in {} at least", sizes, n_before);
            prop_assert!(whole.into_iter().flatten().eq(step.batches.iter().flat_map(PackedRows::iter)));
            taken = step.span.end;
            seen.extend(step.batches.iter().flat_map(|batch| batch.iter().map(<[Piece]>::to_vec)));
            if step.ends_epoch {
                break;
            }
        }
        prop_assert!(planner.plan_epoch(0).iter().eq(seen.iter().map(Vec::as_slice)));
        let mut steps = PackSteps::try_new(&planner, size).unwrap();
        for _ in 0..n_before {
            steps.next_step(&budget).unwrap();
        }
        let position = serde_json::from_str(&serde_json::to_string(&steps.position()).unwrap()).unwrap();
        let mut resumed = PackSteps::resume(&planner, size, &position).unwrap();
        for _ in 0..5 {
            prop_assert_eq!(resumed.next_step(&budget), steps.next_step(&budget));
        }
    }
}

/// Documents: log-normal with a long tail.
fn documents(n: usize) -> Vec<u32> {
    let mut numbers = Numbers::new(6);
    (0..n).map(|_| numbers.log_normal(700.0, 1.3, 16, 200_000)).collect()
}

#[track_caller]
fn check_quality(lengths: Vec<u32>, config: PackConfig) -> PackReport {
    let planner = planner(lengths, config);
    let report = planner.report(0, &planner.plan_epoch(0));
    assert!(report.filled >= 0.995 && report.mates_kept <= 0.04, "{report:?}");
    report
}

#[test]
fn rows_are_full_and_have_new_mates() {
    let cut = |row_len| PackConfig { split: Split::Cut { overlap: 0 }, ..PackConfig::new(row_len) };
    for n in [20_000, 100_000] {
        check_quality(chats(n), PackConfig::new(8_192));
        check_quality(speech(n), PackConfig::new(12_000));
        check_quality(documents(n), cut(8_192));
    }
    check_quality(chats(100_000), PackConfig::new(32_768));
}

#[test]
fn a_position_among_ten_million_is_small() {
    let lengths: Vec<u32> = chats(10_000).into_iter().cycle().take(10_000_000).collect();
    let planner = planner(lengths, PackConfig::new(8_192));
    let mut epoch = planner.epoch(0);
    let budget = PackBudget { rows: 64, squares: u64::MAX };
    for _ in 0..100 {
        epoch.next_batch(&budget).unwrap();
        let bytes = serde_json::to_string(&epoch.position()).unwrap().len();
        assert!(bytes <= 4_096, "{bytes}");
    }
}

#[track_caller]
fn refused(lengths: &[u32], config: PackConfig, message: &str) {
    let index = SampleIndex::try_new([lengths]).unwrap();
    assert_eq!(PackPlanner::try_new(index, config).unwrap_err().to_string(), message);
}

#[test]
fn what_cannot_be_packed_is_refused_by_name() {
    let row = PackConfig::new(100);
    let message = "pack rows: sample 1 has length 101, a row of `row_len` 100 has room for 100; set a longer `row_len`, \
                   or cut samples";
    refused(&[7, 101], row, message);
    let message = "pack rows: sample 1 has length 51, a row of `row_len` 100 has room for 50; set a longer `row_len`, or \
                   cut samples";
    refused(&[7, 51], PackConfig { row_squares: Some(2_500), ..row }, message);
    refused(&[7], PackConfig::new(0), "plan batches: `row_len` is 0, it must be at least 1");
    refused(&[7], PackConfig { window: Some(0), ..row }, "plan batches: `window` is 0, it must be at least 1");
    let message = "pack rows: `overlap` is 100, it must be below 100, the length of a piece";
    refused(&[7], PackConfig { split: Split::Cut { overlap: 100 }, ..row }, message);
}

#[test]
fn rows_of_one_task_each_are_refused() {
    let index = SampleIndex::try_new([[7, 8]]).unwrap().with_tasks([0, 1]).unwrap();
    let mix = TaskMix { homogeneous: true, ..TaskMix::default() };
    let message =
        "pack rows: `homogeneous` is true, rows hold samples of any task; leave it out, or pack each task by itself";
    assert_eq!(PackPlanner::try_mixed(index, PackConfig::new(100), &mix).unwrap_err().to_string(), message);
}

#[test]
fn samples_are_drawn_by_their_weights() {
    let lengths: Vec<u32> = (0..4_000).map(|id| 1 + id % 90).collect();
    let weights: Vec<f64> = (0..4_000).map(|id| f64::from(id % 4)).collect();
    let index = SampleIndex::try_new([lengths]).unwrap().with_weights(&weights).unwrap();
    let rows = PackPlanner::try_new(index, PackConfig::new(100)).unwrap().plan_epoch(0);
    let mut n_of = [0_u32; 4];
    rows.iter().flatten().for_each(|piece| n_of[piece.id as usize % 4] += 1);
    // A standard deviation is 32 at most.
    for (n, expected) in n_of.into_iter().zip([0.0, 1.0, 2.0, 3.0]) {
        assert!((f64::from(n) - 4_000.0 * expected / 6.0).abs() < 5.0 * 32.0, "{n_of:?}");
    }
    assert_eq!(n_of.iter().sum::<u32>(), 4_000);
}

#[test]
fn a_rule_without_room_for_a_row_is_refused_and_moves_nothing() {
    let planner = planner(vec![30, 40, 50], PackConfig::new(100));
    let mut epoch = planner.epoch(0);
    let before = epoch.clone();
    let none = PackBudget { rows: 0, squares: u64::MAX };
    let message = "take packed rows: a row of 100 positions whose squares sum to 5000 does not fit even alone; set a \
                   shorter `row_len`, or lower `row_squares`";
    assert_eq!(planner.check(&none).unwrap_err().to_string(), message);
    assert!(epoch.next_batch(&none).is_err());
    assert_eq!(epoch, before);
    assert!(epoch.next_batch(&PackBudget { rows: 1, squares: 5_000 }).unwrap().is_some());
}

#[test]
fn a_position_of_another_plan_is_refused() {
    let lengths: Vec<u32> = (1..90).collect();
    let config = PackConfig::new(100);
    let position = planner(lengths.clone(), config).epoch(0).position();
    let resumed = |lengths, config| planner(lengths, config).resume(&position).unwrap_err().to_string();
    let message = "resume an epoch: the position was taken with `seed` 0, the plan has 1";
    assert_eq!(resumed(lengths.clone(), PackConfig { seed: 1, ..config }), message);
    assert!(resumed(lengths, PackConfig::new(101)).contains("`fingerprint of the configuration`"));
}

#[test]
fn a_position_of_rows_that_were_packed_otherwise_is_refused() {
    let planner = planner((1..200).collect(), PackConfig::new(256));
    let mut saved = serde_json::to_value(planner.epoch(0).position()).unwrap();
    saved["of"]["rule"] = 0.into();
    let position: PackPosition = serde_json::from_value(saved).unwrap();
    let error = planner.resume(&position).unwrap_err().to_string();
    assert!(error.contains("`fingerprint of the capacity rule` 0"), "{error}");
}

#[test]
fn rows_are_fuller_than_padded_samples_unless_most_are_as_long_as_a_row() {
    let is_fuller =
        |lengths: &[u32], edges: &[u32]| planner(lengths.to_vec(), PackConfig::new(100)).is_fuller_than(edges);
    let short = [50, 30, 20].repeat(20);
    assert!(is_fuller(&short, &[50, 100]));
    assert!(!is_fuller(&short, &[20, 30, 50]) && !is_fuller(&short, &[]), "nothing is padded");
    // Two of them lie in no row together.
    let long = [60, 70, 100].repeat(20);
    assert!(!is_fuller(&long, &[70, 100]) && !is_fuller(&long, &[100]) && is_fuller(&long, &[101]));
}
