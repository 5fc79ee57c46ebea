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

/// More than its share by this part is too much for a taker: batches are cut then.
const TOO_MUCH: u128 = 8;

/// A piece that is less than a share by this part is not worth a cut.
const FEW: u128 = 4;

/// Cuts batches of so many samples, each of which costs so much, where equal takers of whole ones would wait for one another, and
/// returns the sizes of the pieces of each batch.
///
/// Of all batches in a row each taker has an equal stretch, and what lies across an end of one is cut there: so there are fewer
/// cuts than takers.
/// None makes a piece that is less than a quarter of a share, which is not worth another piece.
/// Pieces but the last of a batch have a multiple of `multiple_of` samples.
/// Nothing is cut where a taker of whole batches has at most an eighth more than its share.
///
/// # Example
///
/// ```
/// use plimsoll_sampler::cut_for;
///
/// assert_eq!(cut_for(2, &[(4, 10), (4, 10), (4, 10)], 1), [vec![4], vec![2, 2], vec![4]]);
/// ```
///
/// # Sources
///
/// The wrap-around rule (Scheduling with deadlines and loss functions, Management Science 6, 1959).
pub fn cut_for(n_takers: usize, batches: &[(u32, u64)], multiple_of: u32) -> Vec<Vec<u32>> {
    let costs: Vec<_> = batches.iter().map(|(samples, cost)| u64::from(*samples).saturating_mul(*cost)).collect();
    let of = |taker: &Vec<usize>| taker.iter().map(|at| u128::from(costs[*at])).sum::<u128>();
    let (all, n_takers) = (of(&(0..costs.len()).collect()), n_takers.max(1));
    let most = deal(&costs, n_takers).iter().map(of).max().unwrap_or_default();
    let n_takers = n_takers as u128;
    if most * n_takers * TOO_MUCH <= all * (TOO_MUCH + 1) {
        return batches.iter().map(|(samples, _)| vec![*samples]).collect();
    }
    let mut start = 0;
    let pieces = |(&(samples, cost), of_batch): (&(u32, u64), &u64)| {
        let end = start + u128::from(*of_batch);
        let (mut pieces, mut begun) = (Vec::new(), 0);
        for stretch in start * n_takers / all + 1..(end * n_takers).div_ceil(all) {
            let before = (all * stretch / n_takers).saturating_sub(start) / u128::from(cost.max(1));
            let before = u32::try_from(before).ok().and_then(|it| it.checked_next_multiple_of(multiple_of.max(1)));
            let before = before.unwrap_or(samples);
            let is_worth = |n: u32| all <= FEW * n_takers * u128::from(n) * u128::from(cost);
            if is_worth(before.saturating_sub(begun)) && is_worth(samples.saturating_sub(before)) {
                pieces.push(before - begun);
                begun = before;
            }
        }
        start = end;
        pieces.push(samples - begun);
        pieces
    };
    batches.iter().zip(&costs).map(pieces).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_where_takers_of_whole_ones_would_wait() {
        let cut = |n, batches: &[(u32, u64)]| cut_for(n, batches, 1);
        assert_eq!(cut(2, &[(8, 52), (8, 28), (8, 20), (8, 12)]), [[8], [8], [8], [8]]);
        assert_eq!(cut(4, &[(8, 52), (8, 28), (8, 20), (8, 12)]), [vec![4, 4], vec![8], vec![8], vec![8]]);
        assert_eq!(cut(2, &[(8, 28)]), [[4, 4]]);
        assert_eq!(cut(16, &[(8, 1)]), [[1; 8]]);
        assert_eq!(cut(4, &[(1, 512)]), [[1]]);
        assert_eq!(cut(1, &[(9, 3), (0, 5)]), [[9], [0]]);
        assert_eq!(cut(3, &[]), Vec::<Vec<u32>>::new());
        assert_eq!(cut_for(2, &[(30, 1)], 8), [[16, 14]]);
    }
}
