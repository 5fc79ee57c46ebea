//! Which device takes which samples.

use plimsoll_sampler::{SamplerError, Taker, deal};
use proptest::prelude::*;

fn any_taker() -> impl Strategy<Value = Taker> {
    (0_u64..=1 << 40, 0_u64..200).prop_map(|(weight, largest)| Taker { weight, largest })
}

proptest! {
    #[test]
    fn every_sample_goes_to_one_who_can_hold_it_or_to_nobody(
        costs in prop::collection::vec(1_u64..150, 0..60),
        takers in prop::collection::vec(any_taker(), 0..8),
    ) {
        let holds = |it: &Taker, cost: u64| 0 < it.weight && cost <= it.largest;
        match deal(&costs, &takers) {
            Ok(shares) => {
                for (taker, share) in takers.iter().zip(&shares) {
                    prop_assert!(share.iter().all(|at| holds(taker, costs[*at])));
                    prop_assert!(share.is_sorted_by(|a, b| costs[*b] <= costs[*a]), "the costliest first");
                }
                let mut dealt: Vec<_> = shares.concat();
                dealt.sort_unstable();
                prop_assert!(dealt.into_iter().eq(0..costs.len()));
            }
            Err(SamplerError::NobodyTakes { index, cost, largest }) => {
                prop_assert!(cost == costs[index] && largest < cost && !takers.iter().any(|it| holds(it, cost)));
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn nobody_takes_more_than_its_share_by_a_whole_sample(
        costs in prop::collection::vec(0_u64..1 << 40, 1..200),
        weights in prop::collection::vec(0_u64..1 << 40, 1..20),
    ) {
        prop_assume!(weights.iter().any(|it| 0 < *it));
        let takers: Vec<_> = weights.iter().map(|weight| Taker { weight: *weight, largest: u64::MAX }).collect();
        let shares = deal(&costs, &takers).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let sum = |it: &mut dyn Iterator<Item = u64>| it.map(u128::from).sum::<u128>();
        let (all, total) = (sum(&mut costs.iter().copied()), sum(&mut weights.iter().copied()));
        let costliest = u128::from(costs.iter().copied().max().unwrap_or(0));
        for (weight, share) in weights.iter().zip(&shares) {
            let taken = sum(&mut share.iter().map(|at| costs[*at]));
            prop_assert!(taken * total <= u128::from(*weight) * all + costliest * total);
            prop_assert!(0 < *weight || share.is_empty());
        }
    }
}

#[test]
fn the_largest_sample_leaves_the_others_to_those_who_have_less_to_do() {
    let shares = |costs: &[u64], n| deal(costs, &vec![Taker::EQUAL; n]);
    assert_eq!(shares(&[4, 8, 6], 2), Ok(vec![vec![1], vec![2, 0]]));
    assert_eq!(shares(&[5, 5, 5, 5], 2), Ok(vec![vec![0, 2], vec![1, 3]]));
    assert_eq!(shares(&[5, 5], 4), Ok(vec![vec![0], vec![1], vec![], vec![]]), "a share may be empty");
    assert_eq!(shares(&[1, 2, 3], 1), Ok(vec![vec![2, 1, 0]]));
    assert_eq!(shares(&[], 2), Ok(vec![vec![]; 2]));
}

#[test]
fn a_sample_that_nobody_holds_is_named() {
    let takers = [Taker { weight: 1, largest: 10 }, Taker { weight: 0, largest: 50 }];
    let text = deal(&[5, 20], &takers).map(|_| ()).map_err(|error| error.to_string());
    let expected = "deal a step: sample 1 of it costs 20, the largest that any device with a weight holds costs 10";
    assert_eq!(text, Err(expected.to_owned()));
}
