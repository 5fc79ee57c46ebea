//! Which steps may share a model.

use plimsoll_types::{Phase, Recompute, StepShape};
use serde::{Deserialize, Serialize};

use crate::Platform;

/// What two steps must have in common for one to say something about the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Whether gradients are computed.
    pub phase: Phase,
    /// Whether activations are recomputed in the backward pass instead of kept.
    pub checkpointing: bool,
    /// What the step runs on.
    pub platform: Platform,
    /// Number of the set of kernels that the shape runs, opaque here.
    ///
    /// Burn's Flex, for one, takes another convolution path when the batch has at most 4 samples, and the two paths
    /// need different workspaces.
    pub regime: u16,
}

impl Key {
    /// Whether the two keys differ at most in their regime.
    pub(crate) fn is_sibling_of(self, other: Self) -> bool {
        Self { regime: other.regime, ..self } == other
    }

    /// Whether what is read of the one lies in the same pools as what is read of the other.
    pub(crate) fn shares_pages_with(&self, other: Self) -> bool {
        self.platform.device == other.platform.device
    }
}

/// What the keys of one program have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Whose activations are recomputed in the backward pass instead of kept.
    pub recompute: Recompute,
    /// What the program runs on.
    pub platform: Platform,
    /// Batches up to this many samples run other kernels than larger ones, where gradients are computed.
    pub small_batch: u32,
}

impl Keys {
    /// Returns the key of a part of this shape.
    pub fn key(self, phase: Phase, shape: StepShape) -> Key {
        // Without a gradient there is one path only, and nothing to compute again.
        let has_gradient = phase == Phase::Train;
        let regime = u16::from(has_gradient && shape.samples <= self.small_batch);
        let checkpointing = has_gradient && self.recompute.is_on(shape.edge());
        Key { phase, checkpointing, platform: self.platform, regime }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_have_a_regime_of_their_own_where_gradients_are_computed() {
        let keys = Keys { recompute: Recompute::NEVER, platform: Platform::default(), small_batch: 4 };
        let regime = |phase, n| keys.key(phase, StepShape::new(n, 8)).regime;
        assert_eq!([4, 5].map(|n| regime(Phase::Train, n)), [1, 0]);
        assert_eq!([4, 5].map(|n| regime(Phase::Infer, n)), [0, 0]);
    }

    #[test]
    fn only_where_activations_are_recomputed_has_a_shape_the_key_of_those() {
        let keys = Keys { recompute: Recompute::from(16), platform: Platform::default(), small_batch: 0 };
        let checkpointing = |phase, edge| keys.key(phase, StepShape::new(1, edge)).checkpointing;
        assert_eq!([8, 15, 16, 64].map(|edge| checkpointing(Phase::Train, edge)), [false, false, true, true]);
        assert!(!checkpointing(Phase::Infer, 64), "there is no backward pass");
    }

    #[test]
    fn siblings_share_all_but_the_regime() {
        let key = Key { phase: Phase::Train, checkpointing: false, platform: Platform::default(), regime: 0 };
        let on_another = |device| Key { platform: Platform { device, ..key.platform }, ..key };
        assert!(key.is_sibling_of(Key { regime: 1, ..key }));
        for other in [Key { phase: Phase::Infer, ..key }, Key { checkpointing: true, ..key }, on_another(1)] {
            assert!(!key.is_sibling_of(other), "{other:?}");
        }
    }
}
