//! By how much needs are lifted while a program is not what it was.

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use crate::recent::{MEMORY, READINGS, factor, parts};

/// What readings above their bounds say of what was not read with them.
///
/// One reading of `r` where `n` was the most says that everything needs `r / n` times as much, or `r - n` more.
/// Nothing tells which: a program that has changed grows what is large by more, and what else takes memory for a moment
/// grows what is small by as much as the rest.
/// A single reading counts as a factor. Several count as the less of both, as far as that explains all of them: what makes
/// a half exceed its bound by a larger factor than the whole is an amount. What was larger than all of them grows by
/// the factor of the largest.
///
/// It counts for 48 readings after the last of them, and then leaves nothing behind, unless needs are still what they were
/// lifted to: then they are learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lift {
    /// The reading above its bound that came last.
    at: u64,
    /// The last reading that was nearer to what its shape is lifted to than to what it was.
    met_at: u64,
    /// The largest factor, as [`parts`].
    factor: u64,
    /// The largest amount.
    amount: Bytes,
    /// The bound of the largest of them, and its factor.
    largest: Bytes,
    of_largest: u64,
}

impl Lift {
    /// Takes the reading of this number, of `read` bytes where `bound` was the most.
    pub(crate) fn push(&mut self, at: u64, bound: Bytes, read: Bytes) {
        (self.at, self.met_at) = (at, at);
        let lacking = parts(read.share_of(bound));
        self.factor = self.factor.max(lacking);
        self.amount = self.amount.max(read.saturating_sub(bound));
        if self.largest <= bound {
            (self.largest, self.of_largest) = (bound, lacking);
        }
    }

    /// Whether the reading of a shape is nearer to what it is lifted to than to what it was; if so it is no news.
    pub(crate) fn meets(&mut self, at: u64, (was, lifted): (Bytes, Bytes), read: Bytes) -> bool {
        let meets = was.as_f64() + lifted.as_f64() < 2.0 * read.as_f64();
        if meets {
            self.met_at = at;
        }
        meets
    }

    /// Whether it is over at the reading of this number.
    pub(crate) fn is_over(&self, at: u64) -> bool {
        self.at + u64::from(MEMORY) <= at
    }

    /// Whether needs are still what they were lifted to.
    pub(crate) fn lasts(&self, at: u64) -> bool {
        at < self.met_at + u64::from(READINGS)
    }

    /// Returns the number of the reading above its bound that came last.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Returns what a need is lifted to.
    pub(crate) fn of(self, need: Bytes) -> Bytes {
        let times = |lacking: u64| Bytes::from_f64_ceil(need.as_f64() * factor(lacking)).max(need);
        times(self.factor).min(need.saturating_add(self.amount).max(times(self.of_largest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(readings: &[(u64, u64)], need: u64) -> u64 {
        let mut lift = Lift::default();
        for (bound, read) in readings {
            lift.push(0, Bytes(*bound), Bytes(*read));
        }
        lift.of(Bytes(need)).0
    }

    #[test]
    fn one_reading_lifts_all_needs_by_its_factor() {
        assert_eq!([1, 1000, 4000, 16_000].map(|it| lifted(&[(4000, 5000)], it)), [2, 1250, 5000, 20_000]);
    }

    #[test]
    fn a_half_that_exceeds_by_the_same_amount_lifts_the_whole_no_further() {
        for readings in [[(4000, 5000), (2000, 3000)], [(2000, 3000), (4000, 5000)]] {
            let needs = [1000, 2000, 3000, 4000, 8000].map(|it| lifted(&readings, it));
            assert_eq!(needs, [1500, 3000, 4000, 5000, 10_000]);
        }
    }

    #[test]
    fn every_reading_is_explained() {
        let readings = [(4000, 5000), (3000, 4500), (100, 700), (9000, 9100)];
        assert!(readings.iter().all(|(bound, read)| *read <= lifted(&readings, *bound)));
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(lifted(&[(1, u64::MAX)], u64::MAX), u64::MAX);
        assert_eq!(lifted(&[], 7), 7);
    }
}
