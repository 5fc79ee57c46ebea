//! Properties of lattices, their edges against all other choices, and what is refused.

use plimsoll_predict::{Lattice, edges, fewest_edges, rungs};
use plimsoll_types::{Fraction, StepShape};
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

    #[test]
    fn each_step_of_a_data_set_has_the_smallest_cell_that_covers_it(
        lengths in prop::collection::vec(1..=2000u32, 1..60), k in 1..9u32, max in 1..200u32, samples in 1..220u32,
    ) {
        let lattice = Lattice::try_new(edges(&lengths, k, 16).unwrap().edges, rungs(max).unwrap()).unwrap();
        for length in lengths {
            let covering = lattice.cells().filter(|it| it.samples >= samples && it.edge() >= length);
            let smallest = covering.min_by_key(|it| (it.edge(), it.samples));
            prop_assert_eq!(lattice.cell_for(samples, length), smallest);
            prop_assert_eq!(smallest.is_some(), samples <= max);
        }
    }

    #[test]
    fn a_restored_lattice_equals_the_saved_one(edges in prop::collection::vec(1..999u32, 1..9), max in 1..99u32) {
        let saved = Lattice::try_new(edges, rungs(max).unwrap()).unwrap();
        let text = serde_json::to_string(&saved).unwrap();
        prop_assert_eq!(serde_json::from_str::<Lattice>(&text).unwrap(), saved);
    }
}

#[test]
fn cells_come_edge_by_edge() {
    let lattice = Lattice::try_new(vec![64, 32, 64], vec![3, 2, 1]).unwrap();
    let cells: Vec<_> = lattice.cells().map(|it| (it.samples, it.edge())).collect();
    assert_eq!(cells, [(1, 32), (2, 32), (3, 32), (1, 64), (2, 64), (3, 64)]);
    assert_eq!((lattice.edges(), lattice.rungs()), (&[32, 64][..], &[1, 2, 3][..]));
    assert_eq!(lattice.cell_for(0, 0), Some(StepShape::new(1, 32)));
    assert_eq!((lattice.cell_for(4, 1), lattice.cell_for(1, 65)), (None, None));
}

#[test]
fn what_makes_no_edges_is_named() {
    let fraction = |it| Fraction::try_new(it).unwrap();
    for (error, message) in [
        (edges(&[], 2, 8), "choose edges: there is no length, but there must be at least one"),
        (edges(&[5, 0], 2, 8), "choose edges: length 1 is 0, but must be at least 1"),
        (edges(&[5], 0, 8), "find a shape: `k` is 0, but must be at least 1"),
        (edges(&[5], 1, 0), "find a shape: `multiple` is 0, but must be at least 1"),
        (edges(&[u32::MAX], 1, 8), "choose edges: length 4294967295 rounded up to a multiple of 8 is above 4294967295"),
        (
            fewest_edges(&[60, 50], fraction(0.05), 64),
            "choose edges: padding must be at most 5.00 %, but multiples of 64 alone add 16.36 %",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), message);
    }
}

#[test]
fn what_makes_no_lattice_is_named() {
    for (edges, rungs, message) in [
        (vec![], vec![1], "find a shape: `n_edges` is 0, but must be at least 1"),
        (vec![8], vec![], "find a shape: `n_rungs` is 0, but must be at least 1"),
        (vec![8, 0], vec![1], "find a shape: `edge` is 0, but must be at least 1"),
        (vec![8], vec![0, 1], "find a shape: `rung` is 0, but must be at least 1"),
        (vec![8], vec![1, 2, 5], "build a lattice: rung 5 halves to 3, which is no rung"),
        (vec![8], vec![2], "build a lattice: rung 2 halves to 1, which is no rung"),
    ] {
        assert_eq!(Lattice::try_new(edges, rungs).unwrap_err().to_string(), message);
    }
    assert!(serde_json::from_str::<Lattice>(r#"{"edges":[8],"rungs":[4]}"#).is_err());
}
