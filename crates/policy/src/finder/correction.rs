//! What a real step holds beyond its dry run.

use plimsoll_types::{Bytes, Fraction};
use serde::{Deserialize, Serialize};

use super::Trial;

/// Trials that are enough: the smallest batch, one with room for what the plan may lack, and the corrected choice.
pub(crate) const MAX_TRIALS: u32 = 3;

/// What a dry run of a step reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Bytes that the allocator books.
    pub reserved: Bytes,
    /// Size of the pages in which it books them; zero for an allocator without pages.
    pub page: Bytes,
}

/// All that measured peaks let reality add to a plan.
///
/// A real step is taken to need `reserved + pages · page + extra`: `pages` more than were planned, because a runtime's
/// queue keeps inputs alive, and `extra` bytes whatever the shape, such as a context.
/// Each number of pages that some `extra` reconciles with every measured peak remains possible; the bound is the
/// largest of them.
/// A small batch fixes `extra`, because its pages are small, and the largest one fixes `pages`: in a small batch, what
/// is held may find room in pages that are there anyway.
/// When no number of pages explains the peaks, what was most beyond the plan is added, and grows with the plan if it
/// was the largest batch that showed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The numbers of pages that are possible, each with the most that `extra` can be.
    possible: Vec<(u64, Bytes)>,
    measured: Vec<Measured>,
}

/// What a step certainly needed, whatever the noise was, next to its plan.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    planned: Planned,
    low: Bytes,
    high: Bytes,
}

impl Correction {
    /// Learns from trials next to their plans.
    pub(crate) fn new(trials: &[(Planned, Trial)], noise: Fraction, max_held_pages: u32) -> Self {
        let mut measured: Vec<_> = trials.iter().map(|(planned, it)| Measured::new(*planned, *it, noise)).collect();
        measured.sort_by_key(|it| it.planned.reserved);
        let pages = 0..=u64::from(max_held_pages);
        let possible = pages.filter_map(|pages| Some((pages, extra(pages, &measured)?))).collect();
        Self { possible, measured }
    }

    /// Returns the most that a step with this plan needs, but for the noise.
    pub(crate) fn upper(&self, planned: Planned) -> Bytes {
        let possible = self.possible.iter().map(|(pages, extra)| planned.with(*pages).saturating_add(*extra));
        possible.max().unwrap_or_else(|| planned.reserved.saturating_add(self.unexplained(planned)))
    }

    fn unexplained(&self, planned: Planned) -> Bytes {
        let Some((largest, others)) = self.measured.split_last() else {
            return Bytes::ZERO;
        };
        let growth = planned.reserved.share_of(largest.planned.reserved).max(1.0);
        let growing = Bytes::from_f64_ceil(largest.beyond(0, largest.high).as_f64() * growth);
        others.iter().map(|it| it.beyond(0, it.high)).fold(growing, Bytes::max)
    }
}

/// Returns the most that can come on top of plan and pages, or `None` when they contradict the measured peaks.
fn extra(pages: u64, measured: &[Measured]) -> Option<Bytes> {
    if let [_, .., largest] = measured
        && largest.high < largest.planned.with(pages)
        && 0 < pages
    {
        return None;
    }
    let least = measured.iter().map(|it| it.beyond(pages, it.low)).max().unwrap_or_default();
    let most = measured.iter().map(|it| it.beyond(pages, it.high)).min().unwrap_or_default();
    (least <= most).then_some(most)
}

impl Planned {
    fn with(self, pages: u64) -> Bytes {
        self.reserved.saturating_add(self.page.saturating_mul(pages))
    }
}

impl Measured {
    fn new(planned: Planned, Trial { resident, peak, .. }: Trial, noise: Fraction) -> Self {
        let need = peak.saturating_sub(resident).as_f64();
        let without = |factor: f64| resident.saturating_add(Bytes::from_f64_ceil(need / factor));
        Self { planned, low: without(1.0 + noise.get()), high: without(1.0 - noise.get()) }
    }

    /// Returns how far a peak is above the plan with so many pages more.
    fn beyond(&self, pages: u64, peak: Bytes) -> Bytes {
        peak.saturating_sub(self.planned.with(pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans of 10 pages each, for pages of these MiB, and real steps that hold this much more.
    #[track_caller]
    fn check(pages_and_beyond: &[(u64, u64)], page: u64, upper: u64) {
        let planned = |page: u64| Planned { reserved: Bytes::mib(10 * page), page: Bytes::mib(page) };
        let trial = |(page, beyond): &(u64, u64)| {
            let trial = Trial { batch: 1, resident: Bytes::mib(1), peak: Bytes::mib(10 * page + beyond) };
            (planned(*page), trial)
        };
        let trials: Vec<_> = pages_and_beyond.iter().map(trial).collect();
        let correction = Correction::new(&trials, Fraction::ZERO, 2);
        assert_eq!(correction.upper(planned(page)), Bytes::mib(upper));
    }

    #[test]
    fn pages_that_may_be_held_count_until_a_large_batch_shows_them() {
        check(&[], 100, 1200);
        check(&[(2, 4)], 100, 1200);
        check(&[(2, 0)], 100, 1200);
        check(&[(2, 0), (100, 0)], 200, 2000);
        check(&[(2, 0), (100, 100)], 200, 2200);
        check(&[(2, 2), (100, 100)], 200, 2200);
    }

    #[test]
    fn what_does_not_grow_with_the_page_is_added_once() {
        check(&[(2, 50), (100, 50)], 200, 2050);
        check(&[(2, 52), (100, 150)], 200, 2250);
    }

    #[test]
    fn what_no_page_explains_grows_with_the_plan() {
        check(&[(2, 2), (100, 500)], 200, 3000);
        check(&[(2, 500), (100, 2)], 200, 2500);
    }

    #[test]
    fn a_plan_is_never_corrected_downwards() {
        let planned = Planned { reserved: Bytes::mib(100), page: Bytes::ZERO };
        let trial = Trial { batch: 1, resident: Bytes::mib(1), peak: Bytes::mib(60) };
        let correction = Correction::new(&[(planned, trial)], Fraction::ZERO, 1);
        assert_eq!(correction.upper(planned), planned.reserved);
    }

    #[test]
    fn noise_leaves_more_possible() {
        let planned = Planned { reserved: Bytes(1000), page: Bytes(50) };
        let trial = Trial { batch: 1, resident: Bytes(0), peak: Bytes(1029) };
        let corrected = |noise| Correction::new(&[(planned, trial); 2], Fraction::try_new(noise).unwrap(), 1);
        let upper = |noise| corrected(noise).upper(planned);
        assert_eq!([upper(0.0), upper(0.02)], [Bytes(1029), Bytes(1050)]);
    }
}
