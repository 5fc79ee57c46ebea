//! What a plan was made for.

use plimsoll_types::Recompute;
use serde::{Deserialize, Serialize};

/// Everything that decides what a step of a shape allocates; a plan holds only where all of it is equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// The model, its loss and its inputs, with their sizes.
    pub model: String,
    /// The optimizer.
    pub optimizer: String,
    /// Number format of parameters and activations.
    pub dtype: String,
    /// Whose activations are recomputed in the backward pass.
    pub recompute: Recompute,
    /// Samples of an optimizer step, which decide whether gradients are accumulated and what the ragged part is.
    pub effective_batch_size: u32,
    /// The device, as its driver names it.
    pub device: String,
    /// Whether operations are fused.
    pub fusion: bool,
    /// Whether kernels are chosen by timing.
    pub autotune: bool,
    /// Versions of Burn, `CubeCL` and Plimsoll.
    pub versions: String,
}

impl Fingerprint {
    /// Returns the versions that this build plans with: another version may allocate otherwise.
    pub fn versions() -> String {
        let (burn, cubecl) = (env!("PLIMSOLL_BURN"), env!("PLIMSOLL_CUBECL"));
        format!("burn {burn}, cubecl {cubecl}, plimsoll {}", env!("CARGO_PKG_VERSION"))
    }

    /// Returns the first thing in which two fingerprints differ: its name, and both values.
    pub fn difference(&self, now: &Self) -> Option<(&'static str, String, String)> {
        let on = |value: bool| if value { "on" } else { "off" }.to_owned();
        let all = |it: &Self| {
            [
                ("model", it.model.clone()),
                ("optimizer", it.optimizer.clone()),
                ("dtype", it.dtype.clone()),
                ("gradient checkpointing", it.recompute.to_string()),
                ("effective batch size", it.effective_batch_size.to_string()),
                ("device", it.device.clone()),
                ("fusion", on(it.fusion)),
                ("autotune", on(it.autotune)),
                ("versions", it.versions.clone()),
            ]
        };
        let pairs = all(self).into_iter().zip(all(now));
        pairs.into_iter().find(|(planned, now)| planned.1 != now.1).map(|(planned, now)| (planned.0, planned.1, now.1))
    }
}
