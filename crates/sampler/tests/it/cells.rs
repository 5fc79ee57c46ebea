//! Cells of several axes: how many, in which order, and whom they hold.

use plimsoll_sampler::{EdgesError, cells, edges};
use plimsoll_types::Extent;
use proptest::prelude::*;

fn extents(axes: usize) -> impl Strategy<Value = Vec<Extent>> {
    let edges = prop::collection::vec(1..=60u32, axes);
    prop::collection::vec(edges.prop_map(|it| Extent::try_new(&it).expect("no edge is 0")), 1..60)
}

proptest! {
    #[test]
    fn no_more_cells_than_wanted_hold_every_sample_and_every_two_of_them(samples in extents(2), most in 1..20u32) {
        let found = cells(&samples, most, &[1, 4]).unwrap();
        prop_assert!(found.is_ordered() && found.len() <= most as usize, "{found}");
        let own = |it: &Extent| found.at(*it).map(|at| found[at]);
        prop_assert!(samples.iter().all(|it| own(it).is_some_and(|cell| cell.covers(*it))));
        prop_assert!(found.iter().flat_map(|a| found.iter().map(|b| a.joined(*b))).all(|it| found.contains(&it)));
        prop_assert_eq!(own(&samples.iter().copied().reduce(Extent::joined).unwrap()), found.last().copied());
        prop_assert!(found.edges(1).iter().all(|it| it % 4 == 0));
    }

    #[test]
    fn on_one_axis_they_are_the_edges(samples in extents(1), most in 1..20u32) {
        let lengths: Vec<u32> = samples.iter().map(|it| it.edge()).collect();
        prop_assert_eq!(cells(&samples, most, &[4]).unwrap().edges(0), edges(&lengths, most, 4).unwrap().edges);
    }

    #[test]
    fn no_more_is_padded_than_in_one_cell(samples in extents(2), most in 1..12u32) {
        let padded = |most| {
            let found = cells(&samples, most, &[1, 1]).unwrap();
            samples.iter().map(|it| found[found.at(*it).unwrap()].positions()).sum::<u64>()
        };
        prop_assert!(padded(most) <= padded(1));
    }
}

#[test]
fn what_has_no_cells_is_refused() {
    assert_eq!(cells(&[], 4, &[1, 1]), Err(EdgesError::NoLength));
    assert_eq!(cells(&[Extent::new(5)], 4, &[1, 1]), Err(EdgesError::OtherAxes { n_multiples: 2, n_axes: 1 }));
    assert_eq!(cells(&[Extent::new(5)], 4, &[]), Err(EdgesError::OtherAxes { n_multiples: 0, n_axes: 1 }));
    assert_eq!(cells(&[Extent::new(5)], 0, &[1]), Err(EdgesError::BelowOne("most")));
}
