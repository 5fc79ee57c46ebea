//! The largest batch whose upper bound fits.

use std::ops::RangeInclusive;

use plimsoll_types::Bytes;

/// How many sixteenths of a batch above the boundary are looked at as well.
///
/// What pages reserve dips where one page fewer is enough, because pages grow with the batch; by a third where three
/// are left. Neither a plan nor a bound costs a step.
const BEYOND: u32 = 6;

/// A batch with the upper bound of its peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Certified {
    pub(crate) batch: u32,
    pub(crate) upper: Bytes,
}

/// Returns the largest of the batches whose upper bound is within a limit, as far as halving the range finds it.
///
/// Where bounds do not grow with the batch, a smaller one may be found, but never one whose bound does not fit.
pub(crate) fn largest(
    batches: RangeInclusive<u32>,
    limit: Bytes,
    upper: impl Fn(u32) -> Option<Bytes>,
) -> Option<Certified> {
    let certified = |batch| Some(Certified { batch, upper: upper(batch).filter(|it| *it <= limit)? });
    let (low, high) = batches.into_inner();
    let mut found = halve(low, high, certified)?;
    while let Some(above) = beyond(found.batch, high, certified) {
        found = halve(above, high, certified).unwrap_or(found);
    }
    Some(found)
}

fn halve(mut low: u32, high: u32, certified: impl Fn(u32) -> Option<Certified>) -> Option<Certified> {
    let (mut end, mut found) = (high.saturating_add(1), None);
    while low < end {
        let middle = u32::midpoint(low, end);
        match certified(middle) {
            Some(it) => (low, found) = (middle + 1, Some(it)),
            None => end = middle,
        }
    }
    found
}

/// Returns a batch that fits some way above one next to which nothing does.
fn beyond(batch: u32, high: u32, certified: impl Fn(u32) -> Option<Certified>) -> Option<u32> {
    let sixteenth = batch.div_ceil(16);
    let above = (1..=BEYOND).map(|it| batch + 1 + sixteenth * it).filter(|it| *it <= high);
    above.rev().find(|it| certified(*it).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(low: u32, high: u32, upper: impl Fn(u32) -> u64, batch: Option<u32>) {
        let found = largest(low..=high, Bytes(100), |it| Some(Bytes(upper(it))));
        assert_eq!(found.map(|it| it.batch), batch);
        assert!(found.is_none_or(|it| it.upper == Bytes(upper(it.batch))));
    }

    #[test]
    fn the_largest_is_found_where_bounds_grow() {
        check(1, 4096, |batch| 7 * u64::from(batch), Some(14));
        check(3, 9, u64::from, Some(9));
        check(3, 9, |_| 101, None);
        check(9, 3, |_| 1, None);
    }

    #[test]
    fn a_dip_above_the_first_that_does_not_fit_is_found() {
        let pages = |batch: u32| if (33..40).contains(&batch) { 120 } else { 2 * u64::from(batch) };
        check(1, 4096, pages, Some(50));
    }

    #[test]
    fn no_bound_certifies_nothing() {
        assert_eq!(largest(1..=9, Bytes(100), |_| None), None);
    }
}
