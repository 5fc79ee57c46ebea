//! The names of devices.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A device that can be probed, written as `flex`, `vulkan:1` or `cuda:0`.
///
/// `vulkan` and `vulkan:0` are the adapter that Burn takes by default on Vulkan.
/// From 1 on, the index is a place in the list of all adapters, counted from 0: discrete, integrated, virtual, then
/// software ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceKind {
    /// The heap of this program, where the Flex backend keeps its tensors.
    Flex,
    /// A Vulkan device.
    Vulkan(usize),
    /// A CUDA device, by the driver's index.
    Cuda(usize),
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no device: write `flex`, `vulkan`, `vulkan:1`, `cuda` or `cuda:0`")]
pub struct ParseDeviceKindError(String);

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flex => f.pad("flex"),
            Self::Vulkan(index) => f.pad(&format!("vulkan:{index}")),
            Self::Cuda(index) => f.pad(&format!("cuda:{index}")),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = ParseDeviceKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseDeviceKindError(text.to_owned());
        let name = text.trim().to_ascii_lowercase();
        let (family, index) = match name.split_once(':') {
            Some((family, index)) => (family, Some(index.parse().map_err(|_| fail())?)),
            None => (name.as_str(), None),
        };
        match (family, index) {
            ("flex" | "cpu", None) => Ok(Self::Flex),
            ("vulkan", index) => Ok(Self::Vulkan(index.unwrap_or(0))),
            ("cuda", index) => Ok(Self::Cuda(index.unwrap_or(0))),
            _ => Err(fail()),
        }
    }
}

impl TryFrom<String> for DeviceKind {
    type Error = ParseDeviceKindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DeviceKind> for String {
    fn from(kind: DeviceKind) -> Self {
        kind.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for (text, kind) in [
            ("flex", DeviceKind::Flex),
            ("cpu", DeviceKind::Flex),
            ("vulkan", DeviceKind::Vulkan(0)),
            ("Vulkan:1", DeviceKind::Vulkan(1)),
            (" cuda:0 ", DeviceKind::Cuda(0)),
        ] {
            assert_eq!(text.parse(), Ok(kind), "{text}");
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn a_text_that_names_no_device_is_quoted_in_the_error() {
        for text in ["", "flex:0", "cuda:", "cuda:-1", "vulkan:x", "metal"] {
            let error = text.parse::<DeviceKind>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is no device")), "{error}");
        }
    }

    #[test]
    fn a_kind_serialises_as_its_name() {
        assert_eq!(serde_json::to_string(&DeviceKind::Vulkan(1)).unwrap(), "\"vulkan:1\"");
        assert_eq!(serde_json::from_str::<DeviceKind>("\"cpu\"").unwrap(), DeviceKind::Flex);
    }
}
