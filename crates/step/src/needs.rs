//! What single samples were measured to need.

use std::collections::BTreeMap;

use plimsoll_predict::Phase;
use plimsoll_types::{Bytes, StepShape};

/// Of single samples that have run in this process, the least that each extent was measured to need on top of what was in use
/// before it; learnt only where peaks are exact.
///
/// It is no bound of what a sample needs at most, but of what it needs at least: where that is more than there is, running it
/// can only end badly, on a CPU with the process.
/// The first reading of an extent is left out: it holds thread pools and work space that stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeastNeeds {
    least: BTreeMap<(Phase, StepShape), Option<Bytes>>,
}

impl LeastNeeds {
    /// Learns from a part that ran; one of several samples says nothing of one.
    pub(crate) fn note(&mut self, phase: Phase, shape: StepShape, resident: Bytes, peak: Bytes) {
        let need = peak.saturating_sub(resident);
        if shape.samples != 1 || need == Bytes::ZERO {
            return;
        }
        let known = self.least.get(&(phase, shape)).copied();
        let least = known.map(|least| least.map_or(need, |least: Bytes| least.min(need)));
        self.least.insert((phase, shape), least);
    }

    /// Returns what a single sample would reach at the very least, where that is more than there is.
    pub(crate) fn too_much(&self, phase: Phase, shape: StepShape, resident: Bytes, capacity: Bytes) -> Option<Bytes> {
        let least = self.least.get(&(phase, shape)).copied().flatten()?;
        Some(resident.saturating_add(least)).filter(|reached| capacity < *reached)
    }

    /// Forgets what belongs to steps of another kind.
    pub(crate) fn forget(&mut self) {
        self.least.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StepShape = StepShape::new(1, 32);

    #[test]
    fn what_a_sample_needs_at_least_is_the_least_of_what_it_was_measured_to_need_but_for_the_first_time() {
        let mut needs = LeastNeeds::default();
        let too_much = |needs: &LeastNeeds, capacity| {
            needs.too_much(Phase::Train, ONE, Bytes(100), Bytes(capacity)).map(|it| it.0)
        };
        // The first held what stays; one of several samples, and one that needed nothing, say nothing.
        for (shape, resident, peak) in [(ONE, 0, 5), (StepShape::new(2, 32), 0, 9), (ONE, 9, 9)] {
            needs.note(Phase::Train, shape, Bytes(resident), Bytes(peak));
        }
        assert_eq!(too_much(&needs, 100), None);
        needs.note(Phase::Train, ONE, Bytes(10), Bytes(40));
        assert_eq!((too_much(&needs, 129), too_much(&needs, 130)), (Some(130), None));
        needs.note(Phase::Train, ONE, Bytes(20), Bytes(70));
        needs.note(Phase::Train, ONE, Bytes(20), Bytes(40));
        assert_eq!((too_much(&needs, 119), too_much(&needs, 120)), (Some(120), None));
        assert_eq!(needs.too_much(Phase::Infer, ONE, Bytes(100), Bytes(1)), None);
        assert_eq!(needs.too_much(Phase::Train, StepShape::new(1, 33), Bytes(100), Bytes(1)), None);
        needs.forget();
        assert_eq!(too_much(&needs, 1), None);
    }
}
