//! Edges against all other choices, and what is refused.

use plimsoll_sampler::edges;
use proptest::prelude::*;

fn padded(lengths: &[u32], edges: &[u32]) -> u64 {
    lengths.iter().map(|it| u64::from(edges[edges.partition_point(|edge| edge < it)])).sum()
}

/// Tries every set of at most `k` multiples that holds the longest.
fn least_padded(lengths: &[u32], k: u32, multiple: u32) -> u64 {
    let last = lengths.iter().max().expect("there is a length").next_multiple_of(multiple);
    let others: Vec<u32> = (1..last / multiple).map(|it| it * multiple).collect();
    let sets = (0..1_u32 << others.len()).filter(|set| set.count_ones() < k);
    let chosen = |set: u32| (0..others.len()).filter(move |at| set >> at & 1 == 1);
    let edges = sets.map(|set| chosen(set).map(|at| others[at]).chain([last]).collect::<Vec<_>>());
    edges.map(|it| padded(lengths, &it)).min().expect("the last multiple alone is a set")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_other_edges_pad_less(
        lengths in prop::collection::vec(1..=44u32, 1..24), k in 1..6u32, multiple in 4..8u32,
    ) {
        let found = edges(&lengths, k, multiple).unwrap();
        let (sum, least) = (lengths.iter().map(|it| u64::from(*it)).sum::<u64>(), least_padded(&lengths, k, multiple));
        prop_assert!(found.edges.is_sorted() && found.edges.len() <= k as usize);
        prop_assert!(found.edges.iter().all(|it| it % multiple == 0));
        prop_assert_eq!(padded(&lengths, &found.edges), least);
        prop_assert!((found.padding - (least as f64 / sum as f64 - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn edges_do_not_depend_on_the_order_of_lengths(
        (lengths, shuffled) in prop::collection::vec(1..=999u32, 1..99).prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        k in 1..9u32,
    ) {
        prop_assert_eq!(edges(&lengths, k, 8), edges(&shuffled, k, 8));
    }
}

#[test]
fn what_makes_no_edges_is_named() {
    for (error, message) in [
        (edges(&[], 2, 8), "choose edges: there is no length, but there must be at least one"),
        (edges(&[5, 0], 2, 8), "choose edges: length 1 is 0, but must be at least 1"),
        (edges(&[5], 0, 8), "choose edges: `k` is 0, but must be at least 1"),
        (edges(&[5], 1, 0), "choose edges: `multiple` is 0, but must be at least 1"),
        (edges(&[u32::MAX], 1, 8), "choose edges: length 4294967295 rounded up to a multiple of 8 is above 4294967295"),
    ] {
        assert_eq!(error.unwrap_err().to_string(), message);
    }
}
