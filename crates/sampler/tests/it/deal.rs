//! Who takes which work.

use plimsoll_sampler::deal;
use proptest::prelude::*;

proptest! {
    #[test]
    fn all_work_is_dealt_once_and_nobody_takes_more_than_its_share_by_a_whole_piece(
        costs in prop::collection::vec(0_u64..1 << 40, 0..200),
        n_takers in 1_usize..20,
    ) {
        let shares = deal(&costs, n_takers);
        let (all, costliest) = (costs.iter().sum::<u64>(), costs.iter().copied().max().unwrap_or(0));
        for share in &shares {
            let taken: u64 = share.iter().map(|at| costs[*at]).sum();
            prop_assert!(taken * n_takers as u64 <= all + costliest * n_takers as u64);
            prop_assert!(share.is_sorted_by(|a, b| costs[*b] <= costs[*a]), "the costliest first");
        }
        let mut dealt: Vec<_> = shares.concat();
        dealt.sort_unstable();
        prop_assert!(dealt.into_iter().eq(0..costs.len()));
    }
}

#[test]
fn the_costliest_leaves_the_others_to_those_who_have_less_to_do() {
    assert_eq!(deal(&[4, 8, 6], 2), [vec![1], vec![2, 0]]);
    assert_eq!(deal(&[5, 5, 5, 5], 2), [vec![0, 2], vec![1, 3]]);
    assert_eq!(deal(&[5, 5], 4), [vec![0], vec![1], vec![], vec![]], "a share may be empty");
    assert_eq!(deal(&[1, 2, 3], 1), [vec![2, 1, 0]]);
    assert_eq!(deal(&[], 2), [Vec::<usize>::new(), vec![]]);
}
