//! What a step runs on.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Number format of a step's tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// IEEE 754, 4 bytes an element.
    #[default]
    F32,
    /// IEEE 754, 2 bytes an element.
    F16,
    /// The upper half of an `F32`, 2 bytes an element.
    Bf16,
    /// IEEE 754, 8 bytes an element.
    F64,
}

impl Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
        })
    }
}

/// What decides how much the same step allocates, besides the step itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// Fingerprint of the device's name, opaque here; alignment and row pitch differ from device to device.
    pub device: u64,
    /// Number format of activations and parameters.
    pub dtype: Dtype,
    /// Whether operations are fused, which leaves out intermediate tensors.
    pub fusion: bool,
    /// Whether kernels are chosen by timing, so that their workspaces are those of the winners.
    pub autotune: bool,
}
