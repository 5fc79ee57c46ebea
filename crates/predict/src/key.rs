//! Which steps may share a model.

use plimsoll_types::Phase;
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
