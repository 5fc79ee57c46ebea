//! What real steps hold beyond their plan.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

/// What an allocator with pages holds, planned or for real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booked {
    /// What tensors may take.
    pub reserved: Bytes,
    /// What the runtime keeps beside that for itself.
    pub auxiliary: Bytes,
    /// Size of the pages, or zero where there are none.
    pub page: Bytes,
}

/// What a real step reserved, beside what was planned for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Shape of the step.
    pub shape: StepShape,
    /// What the tensors' pools were planned to hold.
    pub planned: Bytes,
    /// What they held.
    pub reserved: Bytes,
    /// What the runtime held beside them.
    pub auxiliary: Bytes,
    /// Size of the pages.
    pub page: Bytes,
}

/// What a plan adds to a dry run, from real steps of few cells.
///
/// A runtime that queues its work may hold more pages in reality than in a rehearsal, and it keeps staging buffers and
/// arguments of kernels that a rehearsal does not fill.
///
/// # Example
///
/// ```
/// use plimsoll_predict::{Booked, Correction};
/// use plimsoll_types::{Bytes, StepShape};
///
/// let booked = |pages, mib| Booked { reserved: Bytes::mib(pages * mib), page: Bytes::mib(mib), ..Booked::default() };
/// let mut correction = Correction::default();
/// correction.observe(StepShape::new(1, 64), booked(3, 2), booked(3, 2));
/// // What is held may have found room in the small pages of a small batch.
/// assert_eq!(correction.upper_of_next(booked(3, 50)), Bytes::mib(200));
/// correction.observe(StepShape::new(40, 64), booked(3, 40), booked(4, 40));
/// assert_eq!(correction.upper(booked(3, 50)), Bytes::mib(200));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Pages that a real step held beyond its plan; the most of the measured steps.
    pub pages: u64,
    /// What the runtime held beside the pools, less what was planned of it; the most of the measured steps.
    pub auxiliary: Bytes,
    /// The steps behind it.
    pub measured: Vec<Measured>,
}

impl Booked {
    /// Returns all that is held.
    pub fn total(self) -> Bytes {
        self.reserved.saturating_add(self.auxiliary)
    }
}

impl Correction {
    /// Learns from a real step.
    pub fn observe(&mut self, shape: StepShape, planned: Booked, real: Booked) {
        let page = real.page.max(planned.page);
        let beyond = real.reserved.saturating_sub(planned.reserved);
        self.pages = self.pages.max(if page == Bytes::ZERO { 0 } else { beyond.0.div_ceil(page.0) });
        self.auxiliary = self.auxiliary.max(real.auxiliary.saturating_sub(planned.auxiliary));
        let (planned, reserved, auxiliary) = (planned.reserved, real.reserved, real.auxiliary);
        self.measured.push(Measured { shape, planned, reserved, auxiliary, page });
    }

    /// Returns the most to expect of a cell whose pools were planned to hold this much.
    ///
    /// What the runtime holds beside the pools grows from step to step, as it keeps the arguments of every kernel that
    /// it has launched, until a cleanup (`cubecl-wgpu` 0.11.3: up to 512 buffers of 32 KiB and more).
    /// One step adds at most what the measured ones made from nothing, so that twice that is enough where pages are
    /// returned whenever a step would begin with more.
    pub fn upper(&self, planned: Booked) -> Bytes {
        self.expected(planned).saturating_add(self.auxiliary)
    }

    /// Returns the most to expect of a cell that is to be measured next: until a second cell was, a queue may hold a page
    /// more than the first one showed.
    pub fn upper_of_next(&self, planned: Booked) -> Bytes {
        let unseen = if self.measured.len() < 2 && self.pages == 0 { planned.page } else { Bytes::ZERO };
        self.upper(planned).saturating_add(unseen)
    }

    /// Returns what to expect of a cell whose pools were planned to hold this much.
    pub fn expected(&self, planned: Booked) -> Bytes {
        planned.total().saturating_add(self.auxiliary).saturating_add(planned.page.saturating_mul(self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booked(pages: u64, auxiliary: u64) -> Booked {
        let page = Bytes::mib(2);
        Booked { reserved: page.saturating_mul(pages), auxiliary: Bytes(auxiliary), page }
    }

    #[test]
    fn the_most_that_a_real_step_held_beyond_its_plan_is_added() {
        let mut correction = Correction::default();
        correction.observe(StepShape::new(1, 8), booked(3, 0), booked(3, 100));
        assert_eq!(correction.expected(booked(7, 0)), Bytes(Bytes::mib(14).0 + 100));
        assert_eq!(correction.upper(booked(7, 0)), Bytes(Bytes::mib(14).0 + 200));
        correction.observe(StepShape::new(8, 8), booked(5, 0), booked(6, 90));
        assert_eq!((correction.pages, correction.auxiliary), (1, Bytes(100)));
        assert_eq!(correction.expected(booked(7, 0)), Bytes(Bytes::mib(16).0 + 100));
    }

    #[test]
    fn a_step_that_held_less_than_planned_takes_nothing_off() {
        let mut correction = Correction::default();
        correction.observe(StepShape::new(1, 8), booked(3, 0), booked(2, 0));
        assert_eq!(correction.expected(booked(7, 0)), Bytes::mib(14));
    }

    #[test]
    fn a_page_more_is_allowed_for_until_a_second_cell_has_run() {
        let mut correction = Correction::default();
        assert_eq!(correction.upper_of_next(booked(7, 0)), Bytes::mib(16));
        correction.observe(StepShape::new(1, 8), booked(3, 0), booked(3, 0));
        assert_eq!(correction.upper_of_next(booked(7, 0)), Bytes::mib(16));
        correction.observe(StepShape::new(8, 8), booked(5, 0), booked(5, 0));
        assert_eq!(correction.upper_of_next(booked(7, 0)), Bytes::mib(14));
    }
}
