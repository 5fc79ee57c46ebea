//! What the trials so far have shown.

use std::ops::RangeInclusive;

use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

/// A line is drawn through trials whose batches differ by at least one part in so many, where there are such: equal steps
/// need not read exactly the same, and over a short way that tilts it.
const APART: u32 = 4;

/// A trial whose memory was measured, whether or not it was within the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) batch: u32,
    pub(crate) resident: Bytes,
    pub(crate) peak: Bytes,
}

/// All trials, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trials {
    pub(crate) ran: Vec<Trial>,
    /// Batches that ran out of memory before anyone could tell what they need.
    pub(crate) failed: Vec<u32>,
}

/// What the trials of one path say under a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// The largest batch that was measured to fit.
    pub(crate) fits: Trial,
    /// The largest batch below all that were seen not to fit.
    pub(crate) ceiling: u32,
    /// What one more sample adds at least, in bytes, once two batches fitted.
    ///
    /// The peak of a fixed program is convex in the batch, so that it never grows more slowly than it did.
    pub(crate) slope: Option<f64>,
}

impl Trial {
    pub(crate) fn need(&self) -> Bytes {
        self.peak.saturating_sub(self.resident)
    }
}

impl Trials {
    pub(crate) fn len(&self) -> usize {
        self.ran.len() + self.failed.len()
    }

    pub(crate) fn have(&self, batch: u32) -> bool {
        self.failed.contains(&batch) || self.ran.iter().any(|it| it.batch == batch)
    }

    /// Returns the measured trial of a batch with the highest peak.
    pub(crate) fn of(&self, batch: u32) -> Option<Trial> {
        self.ran.iter().copied().filter(|it| it.batch == batch).max_by_key(|it| it.peak)
    }

    /// Returns the smallest of some batches that needed more than `most`, or failed.
    pub(crate) fn least_above(&self, batches: &RangeInclusive<u32>, most: Bytes) -> Option<u32> {
        let measured = self.ran.iter().filter(|it| most < it.peak).map(|it| it.batch);
        measured.chain(self.failed.iter().copied()).filter(|it| batches.contains(it)).min()
    }

    /// Returns what is known of some batches, or `None` while none is known to fit.
    pub(crate) fn standing(&self, batches: &RangeInclusive<u32>, budget: Bytes) -> Option<Standing> {
        let ceiling = self.least_above(batches, budget).map_or(*batches.end(), |it| it - 1);
        let known = |it: &&Trial| batches.contains(&it.batch) && it.batch <= ceiling;
        let fits = *self.ran.iter().filter(known).max_by_key(|it| (it.batch, it.peak))?;
        let is_apart = |it: &Trial| it.batch <= fits.batch - fits.batch / APART;
        let smaller = self.ran.iter().filter(known).filter(|it| it.batch < fits.batch);
        let slope = smaller.max_by_key(|it| (is_apart(it), it.batch, it.peak)).map(|it| {
            let more = fits.need().saturating_sub(it.need());
            more.as_f64() / f64::from(fits.batch - it.batch)
        });
        // Two that need the same say nothing: one was read too high, or what both need hides what a sample adds.
        Some(Standing { fits, ceiling, slope: slope.filter(|it| 0.0 < *it) })
    }
}

impl Standing {
    /// Returns the largest batch that can fit by what is known, though no bound may say that it does.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float-to-integer cast saturates, and what is left of a budget is not negative"
    )]
    pub(crate) fn hoped(&self, budget: Bytes) -> u32 {
        let left = budget.saturating_sub(self.fits.peak).as_f64();
        match self.slope {
            Some(slope) => self.fits.batch.saturating_add((left / slope).floor() as u32).min(self.ceiling),
            None => self.ceiling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(ran: &[(u32, u64)], failed: &[u32]) -> Trials {
        let trial = |(batch, peak): &(u32, u64)| Trial { batch: *batch, resident: Bytes(10), peak: Bytes(*peak) };
        Trials { ran: ran.iter().map(trial).collect(), failed: failed.to_vec() }
    }

    #[track_caller]
    fn check(trials: &Trials, fits: u32, ceiling: u32, slope: Option<f64>, hoped: u32) {
        let it = trials.standing(&(1..=50), Bytes(100)).unwrap();
        assert_eq!((it.fits.batch, it.ceiling, it.slope, it.hoped(Bytes(100))), (fits, ceiling, slope, hoped));
    }

    #[test]
    fn the_last_two_that_fitted_say_what_a_sample_adds_at_least() {
        check(&trials(&[(5, 40)], &[]), 5, 50, None, 50);
        check(&trials(&[(5, 40), (9, 60)], &[]), 9, 50, Some(5.0), 17);
        check(&trials(&[(9, 60), (5, 40), (1, 39)], &[]), 9, 50, Some(5.0), 17);
        check(&trials(&[(5, 40), (9, 40)], &[]), 9, 50, None, 50);
        check(&trials(&[(5, 70), (9, 40)], &[]), 9, 50, None, 50);
    }

    #[test]
    fn what_did_not_fit_closes_all_above_it() {
        check(&trials(&[(5, 40), (9, 60), (20, 101)], &[]), 9, 19, Some(5.0), 17);
        check(&trials(&[(5, 40), (9, 60)], &[12, 14]), 9, 11, Some(5.0), 11);
        assert_eq!(trials(&[(9, 101)], &[]).standing(&(1..=50), Bytes(100)), None);
        assert_eq!(trials(&[(9, 50)], &[]).standing(&(1..=4), Bytes(100)), None, "another path");
    }
}
