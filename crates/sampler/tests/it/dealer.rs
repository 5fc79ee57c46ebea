//! Which device takes how many samples of each batch of a step.

use plimsoll_sampler::{BatchToDeal, DealError, deal_batches};
use proptest::prelude::*;

/// Samples of a length, and what each device holds of it.
fn batch((n_samples, length, limits): &(u32, u32, Vec<u32>)) -> BatchToDeal {
    BatchToDeal { n_samples: *n_samples, length: *length, multiple_of: 1, limits: limits.clone() }
}

#[track_caller]
fn check<const N: usize>(weights: [f64; N], batches: &[(u32, u32, [u32; N])], expected: &[[u32; N]]) {
    let batches: Vec<_> = batches.iter().map(|it| batch(&(it.0, it.1, it.2.to_vec()))).collect();
    let dealt = deal_batches(&weights, None, &batches).unwrap();
    assert_eq!(dealt, expected.iter().map(|it| it.to_vec()).collect::<Vec<_>>());
}

#[test]
fn shares_are_as_the_speeds_are_and_memory_only_bounds_a_micro_batch() {
    check([4.0, 2.0, 1.0], &[(35, 64, [9; 3])], &[[20, 10, 5]]);
    check([1.0, 1.0], &[(32, 64, [4, 32])], &[[16, 16]]);
}

#[test]
fn what_does_not_come_out_even_is_made_good_by_shorter_samples() {
    check([2.0, 1.0], &[(1, 100, [9; 2]), (1, 100, [9; 2]), (1, 100, [9; 2])], &[[1, 0], [0, 1], [1, 0]]);
    check([1.0, 1.0], &[(8, 25, [9; 2]), (3, 100, [9; 2])], &[[2, 6], [2, 1]]);
}

#[test]
fn batches_are_whole_but_where_a_share_ends() {
    let batches = [(8, 52, [8; 2]), (8, 28, [8; 2]), (8, 20, [8; 2]), (8, 12, [8; 2])];
    check([1.0, 1.0], &batches, &[[8, 0], [0, 8], [0, 8], [3, 5]]);
    check([2.0, 1.0], &batches, &[[8, 0], [0, 8], [8, 0], [2, 6]]);
    let of_four = batches.map(|(n, length, _)| (n, length, [8; 4]));
    check([1.0; 4], &of_four, &[[4, 4, 0, 0], [0, 0, 8, 0], [0, 0, 0, 8], [2, 0, 0, 6]]);
    // What is left of a batch is too little for another micro-batch.
    check([1.0, 1.0], &[(8, 30, [8; 2]), (8, 29, [8; 2])], &[[8, 0], [0, 8]]);
    check([1.0; 16], &[(8, 1, [8; 16])], &[[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]]);
}

#[test]
fn samples_are_dealt_so_many_at_once_as_shapes_are_multiples_of() {
    let of = |n_samples, multiple_of| BatchToDeal { n_samples, length: 1, multiple_of, limits: vec![30; 2] };
    let dealt = |batch| deal_batches(&[1.0, 1.0], None, &[batch]).unwrap();
    assert_eq!(dealt(of(30, 8)), [[16, 14]]);
    assert_eq!(dealt(of(7, 8)), [[7, 0]]);
    assert_eq!(dealt(of(0, 8)), [[0, 0]]);
    assert_eq!(dealt(of(30, 1)), [[15, 15]]);
}

#[test]
fn who_does_not_hold_long_samples_takes_more_of_the_short_ones() {
    check([1.0, 1.0], &[(4, 100, [0, 8]), (8, 50, [8, 16])], &[[0, 4], [8, 0]]);
}

#[test]
fn the_faster_takes_what_cannot_be_divided() {
    check([1.0, 3.0], &[(1, 4_000, [9; 2])], &[[0, 1]]);
    check([1.0, 1.2, 1.1], &[(2, 4_000, [9; 3])], &[[0, 1, 1]]);
}

#[test]
fn a_micro_batch_of_a_few_samples_goes_to_who_has_room() {
    check([1.1, 1.0], &[(32, 64, [16, 16])], &[[16, 16]]);
    check([1.0, 1.0], &[(32, 64, [15, 15])], &[[16, 16]]);
    check([1.7, 1.0], &[(32, 64, [16, 16])], &[[20, 12]]);
    check([9.0, 1.0], &[(8, 64, [7, 8])], &[[8, 0]]);
}

#[test]
fn what_nobody_holds_is_an_error() {
    let error = deal_batches(&[1.0, 1.0], None, &[batch(&(3, 900, vec![0, 0]))]).unwrap_err();
    assert_eq!(error, DealError::NobodyTakes { length: 900 });
    assert_eq!(error.to_string(), "deal a step: no device holds a sample that is padded to 900");
}

/// Weights of some devices, and batches of a step.
fn steps() -> impl Strategy<Value = (Vec<f64>, Vec<BatchToDeal>)> {
    (1_usize..6).prop_flat_map(|n| {
        let batch = (0_u32..80, 1_u32..600, prop::collection::vec(0_u32..20, n)).prop_map(|it| batch(&it));
        (prop::collection::vec(0.01_f64..100.0, n), prop::collection::vec(batch, 1..9))
    })
}

proptest! {
    #[test]
    fn every_sample_is_dealt_once_to_one_who_holds_it((weights, batches) in steps()) {
        let Ok(dealt) = deal_batches(&weights, None, &batches) else {
            prop_assert!(batches.iter().any(|it| it.limits.iter().all(|it| *it == 0)));
            return Ok(());
        };
        for (counts, BatchToDeal { n_samples, limits, .. }) in dealt.iter().zip(&batches) {
            prop_assert_eq!(counts.iter().sum::<u32>(), *n_samples);
            prop_assert!(counts.iter().zip(limits).all(|(n, limit)| *n == 0 || 0 < *limit), "{:?}", counts);
        }
    }

    #[test]
    fn who_holds_all_of_a_batch_that_all_take_has_no_more_than_two_samples_too_few_or_too_many(
        weights in prop::collection::vec(0.01_f64..100.0, 1..6),
        batches in prop::collection::vec((1_u32..80, 1_u32..600), 1..9),
    ) {
        let batches: Vec<_> = batches.iter().map(|it| batch(&(it.0, it.1, vec![80; weights.len()]))).collect();
        let dealt = deal_batches(&weights, Some(0.0), &batches).unwrap();
        let longest = batches.iter().map(|it| f64::from(it.length)).fold(0.0, f64::max);
        let all: f64 = batches.iter().map(|it| f64::from(it.n_samples * it.length)).sum();
        for (at, weight) in weights.iter().enumerate() {
            let own: f64 = dealt.iter().zip(&batches).map(|(counts, it)| f64::from(counts[at] * it.length)).sum();
            let owed = all * weight / weights.iter().sum::<f64>() - own;
            prop_assert!(owed.abs() <= 2.001 * longest, "{owed} of {longest}");
        }
    }

    #[test]
    fn who_holds_all_of_a_batch_has_hardly_more_than_its_share(
        weights in prop::collection::vec(0.01_f64..100.0, 1..6),
        batches in prop::collection::vec((1_u32..80, 1_u32..600), 1..9),
    ) {
        let batches: Vec<_> = batches.iter().map(|it| batch(&(it.0, it.1, vec![80; weights.len()]))).collect();
        let dealt = deal_batches(&weights, None, &batches).unwrap();
        let positions = |at: Option<usize>| {
            let of = |(counts, batch): (&Vec<u32>, &BatchToDeal)| {
                f64::from(at.map_or(batch.n_samples, |at| counts[at]) * batch.length)
            };
            dealt.iter().zip(&batches).map(of).sum::<f64>()
        };
        // No more than two samples, and an eighth of a batch, beyond its share.
        let longest = batches.iter().map(|it| f64::from(it.length)).fold(0.0, f64::max);
        let little = (weights.len() as f64 / batches.len() as f64).min(1.0) / 8.0;
        for (at, weight) in weights.iter().enumerate() {
            let share = positions(None) * weight / weights.iter().sum::<f64>();
            let too_many = positions(Some(at)) - share;
            prop_assert!(too_many <= 2.001 * longest + share * little, "{too_many} of {share}, {longest}");
        }
    }
}
