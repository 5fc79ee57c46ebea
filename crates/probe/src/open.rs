//! From a device's name to its probe.

use plimsoll_types::Bytes;

use crate::compartment::CompartmentProbe;
use crate::sharing::Sharing;
use crate::{CappedProbe, Compartment, DeviceKind, HeapProbe, Probe, ProbeError};

/// Opens the probe of a device, with the capacity that the user set, if any.
///
/// # Errors
///
/// [`ProbeError::FeatureMissing`] when this build leaves the device out, [`ProbeError::CapacityTooLarge`] when it has
/// less than `capacity`, and whatever its own constructor says.
pub fn open(kind: DeviceKind, capacity: Option<Bytes>) -> Result<Box<dyn Probe>, ProbeError> {
    let probe: Box<dyn Probe> = match kind {
        DeviceKind::Flex => Box::new(HeapProbe::try_new()?),
        DeviceKind::Vulkan(index) => vulkan(index, None)?,
        DeviceKind::Cuda(index) => cuda(index, None)?,
    };
    capped(probe, capacity)
}

/// Opens the probe of one of several devices of this process, each with the capacity that the user set, if any.
///
/// A device that the list names once is opened as [`open`] does. One that it names several times is divided: each has the
/// capacity that is set for it, and those without have equal parts of the rest.
///
/// * Flex: the one at a place reads the [`Compartment`] of that place, which the threads that work on it have entered.
/// * Vulkan and CUDA: each reads what the thread that asks has allocated, so it is read on the thread that works on it.
///
/// Two names of one card, such as `cuda:0` and `vulkan:0`, are taken for two devices.
///
/// # Errors
///
/// As [`open`]; [`ProbeError::CapacityTooLarge`] too when the device has less than is set for all.
///
/// # Panics
///
/// When the list has none at that place.
pub fn open_among(devices: &[(DeviceKind, Option<Bytes>)], at: usize) -> Result<Box<dyn Probe>, ProbeError> {
    let (kind, capacity) = devices[at];
    let Some(sharing) = Sharing::of(devices, at) else { return open(kind, capacity) };
    let probe = match kind {
        DeviceKind::Flex => compartment(at, sharing)?,
        DeviceKind::Vulkan(index) => vulkan(index, Some(sharing))?,
        DeviceKind::Cuda(index) => cuda(index, Some(sharing))?,
    };
    capped(probe, capacity).map_err(|error| sharing.named_in(error))
}

fn compartment(at: usize, sharing: Sharing) -> Result<Box<dyn Probe>, ProbeError> {
    let found = Compartment::at(at).ok_or_else(|| ProbeError::OpenFailed {
        device: DeviceKind::Flex.to_string(),
        reason: format!("it is device {at} of this process, and {} devices may be of this kind", Compartment::MOST),
    });
    Ok(Box::new(CompartmentProbe::try_new(found?, sharing)?))
}

fn capped(probe: Box<dyn Probe>, capacity: Option<Bytes>) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(match capacity {
        Some(capacity) => Box::new(CappedProbe::try_new(probe, capacity)?),
        None => probe,
    })
}

#[cfg(feature = "vulkan")]
fn vulkan(index: usize, sharing: Option<Sharing>) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(crate::CubeProbe::try_vulkan(index)?.sharing(sharing)))
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(index: usize, _sharing: Option<Sharing>) -> Result<Box<dyn Probe>, ProbeError> {
    Err(ProbeError::FeatureMissing { device: DeviceKind::Vulkan(index).to_string(), feature: "vulkan" })
}

#[cfg(feature = "cuda")]
fn cuda(index: usize, sharing: Option<Sharing>) -> Result<Box<dyn Probe>, ProbeError> {
    Ok(Box::new(crate::CubeProbe::try_cuda(index)?.sharing(sharing)))
}

#[cfg(not(feature = "cuda"))]
fn cuda(index: usize, _sharing: Option<Sharing>) -> Result<Box<dyn Probe>, ProbeError> {
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
