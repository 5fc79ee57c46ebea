//! From a device's name to its probe.

use plimsoll_types::Bytes;

use crate::{CappedProbe, DeviceKind, HeapProbe, Probe, ProbeError};

/// Opens the probe of a device, with the capacity that the user set, if any.
///
/// # Errors
///
/// [`ProbeError::FeatureMissing`] when this build leaves the device out, [`ProbeError::CapacityTooLarge`] when it has
/// less than `capacity`, and whatever its own constructor says.
pub fn open(kind: DeviceKind, capacity: Option<Bytes>) -> Result<Box<dyn Probe>, ProbeError> {
    let probe: Box<dyn Probe> = match kind {
        DeviceKind::Flex => Box::new(HeapProbe::try_new()?),
        DeviceKind::Vulkan(index) => vulkan(index)?,
        DeviceKind::Cuda(index) => cuda(index)?,
    };
    Ok(match capacity {
        Some(capacity) => Box::new(CappedProbe::try_new(probe, capacity)?),
        None => probe,
    })
}

#[cfg(feature = "vulkan")]
fn vulkan(index: usize) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(crate::CubeProbe::try_vulkan(index)?))
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(index: usize) -> Result<Box<dyn Probe>, ProbeError> {
    Err(ProbeError::FeatureMissing { device: DeviceKind::Vulkan(index).to_string(), feature: "vulkan" })
}

#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(crate::CubeProbe::try_cuda(index)?))
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: usize) -> Result<Box<dyn Probe>, ProbeError> {
    Err(ProbeError::FeatureMissing { device: DeviceKind::Cuda(index).to_string(), feature: "cuda" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_the_build_leaves_out_says_how_to_build_it() {
        for (kind, feature, built) in [
            (DeviceKind::Vulkan(1), "vulkan", cfg!(feature = "vulkan")),
            (DeviceKind::Cuda(0), "cuda", cfg!(feature = "cuda")),
        ] {
            if built {
                continue;
            }
            let Err(error) = open(kind, None) else { panic!("{kind} opened without its feature") };
            let message = format!(
                "open {kind}: this build leaves it out; `cargo add plimsoll --features {feature}` brings it to a program of \
                 one's own, `cargo build --release -p plimsoll-cli --features {feature}` to the binary"
            );
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn an_index_beyond_the_last_device_is_an_error() {
        for kind in [DeviceKind::Vulkan(99), DeviceKind::Cuda(99)] {
            assert!(open(kind, None).is_err(), "{kind}");
        }
    }
}
