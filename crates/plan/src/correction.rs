//! What real steps hold beyond their plan.

use plimsoll_types::{Bytes, StepShape};
use serde::{Deserialize, Serialize};

use crate::Pools;

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

impl Correction {
    /// Learns from a real step.
    pub fn observe(&mut self, shape: StepShape, planned: &Pools, real: &Pools) {
        let page = real.page().max(planned.page());
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
    pub fn upper(&self, planned: &Pools) -> Bytes {
        self.expected(planned).saturating_add(self.auxiliary)
    }

    /// Returns what to expect of a cell whose pools were planned to hold this much.
    pub fn expected(&self, planned: &Pools) -> Bytes {
        planned.total().saturating_add(self.auxiliary).saturating_add(planned.page().saturating_mul(self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pages;

    fn pools(pages: u64, auxiliary: u64) -> Pools {
        let size = Bytes::mib(2);
        let (reserved, auxiliary) = (size.saturating_mul(pages), Bytes(auxiliary));
        Pools { reserved, auxiliary, pages: vec![Pages { size, count: pages }], ..Pools::default() }
    }

    #[test]
    fn the_most_that_a_real_step_held_beyond_its_plan_is_added() {
        let mut correction = Correction::default();
        correction.observe(StepShape::new(1, 8), &pools(3, 0), &pools(3, 100));
        assert_eq!(correction.expected(&pools(7, 0)), Bytes(Bytes::mib(14).0 + 100));
        assert_eq!(correction.upper(&pools(7, 0)), Bytes(Bytes::mib(14).0 + 200));
        correction.observe(StepShape::new(8, 8), &pools(5, 0), &pools(6, 90));
        assert_eq!((correction.pages, correction.auxiliary), (1, Bytes(100)));
        assert_eq!(correction.expected(&pools(7, 0)), Bytes(Bytes::mib(16).0 + 100));
    }

    #[test]
    fn a_step_that_held_less_than_planned_takes_nothing_off() {
        let mut correction = Correction::default();
        correction.observe(StepShape::new(1, 8), &pools(3, 0), &pools(2, 0));
        assert_eq!(correction.expected(&pools(7, 0)), Bytes::mib(14));
    }
}
