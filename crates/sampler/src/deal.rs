//! Who takes which work, where all are equal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deals work of these costs, such as the bytes that parts of a step need, to so many equal takers, and returns the places of what
/// each takes, the costliest first.
///
/// The costliest goes first, to whoever has least to do. So nobody has more than its share of all costs by a whole piece.
/// A share may be empty.
///
/// # Panics
///
/// Where there is work and nobody to take it.
///
/// # Example
///
/// ```
/// use plimsoll_sampler::deal;
///
/// assert_eq!(deal(&[4, 8, 6], 2), [vec![1], vec![2, 0]]);
/// ```
///
/// # Sources
///
/// The rule of the longest processing time (R. L. Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17,
/// 1969).
pub fn deal(costs: &[u64], n_takers: usize) -> Vec<Vec<usize>> {
    let mut work: Vec<_> = (0..costs.len()).collect();
    work.sort_by_key(|at| (Reverse(costs[*at]), *at));
    let mut shares = vec![Vec::new(); n_takers];
    let mut takers: BinaryHeap<_> = (0..n_takers).map(|taker| Reverse((0_u128, taker))).collect();
    for at in work {
        let mut least = takers.peek_mut().unwrap_or_else(|| panic!("somebody takes {} costs", costs.len()));
        least.0.0 += u128::from(costs[at]);
        shares[least.0.1].push(at);
    }
    shares
}
