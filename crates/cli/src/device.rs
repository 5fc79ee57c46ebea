//! The devices that settings name.

use plimsoll_plan::PlanError;
use plimsoll_probe::{DeviceKind, Probe, ProbeError};
use plimsoll_types::Bytes;

use crate::harness::Harness;
use crate::settings::Settings;
use crate::values::Capacity;

/// Opens the configured device, and reads its capacity.
pub(crate) fn open_device(harness: &dyn Harness, settings: &Settings) -> Result<(Box<dyn Probe>, Bytes), ProbeError> {
    let probe = harness.open(&settings.devices()[..1], 0)?;
    let capacity = probe.capacity()?;
    Ok((probe, capacity))
}

/// Opens the first of the configured devices anew, for work that has it alone.
pub(crate) fn open_probe(harness: &dyn Harness, settings: &Settings) -> Result<Box<dyn Probe>, PlanError> {
    Ok(harness.open(&settings.devices()[..1], 0)?)
}

/// The capacity that is set is far below what the device has where it is less than one part in so many.
const FAR_BELOW: u64 = 32;

/// Says so where a capacity that was asked for is far below what the device has.
pub(crate) fn far_below(harness: &dyn Harness, settings: &Settings) -> Option<String> {
    let Capacity::Size(set) = settings.memory.capacity.at(0) else { return None };
    let own = harness.open(&[(settings.device(), None)], 0).and_then(|it| it.capacity()).ok()?;
    (set < Bytes(own.0 / FAR_BELOW)).then(|| {
        format!("`memory.capacity` is {set}, and the device has {own}: `--capacity device` would use all of it")
    })
}

/// Returns the name of the configured device, whatever capacity it is made to have.
pub(crate) fn device_name(harness: &dyn Harness, settings: &Settings) -> Result<String, ProbeError> {
    Ok(harness.open(&[(settings.device(), None)], 0)?.name())
}

/// Says of each device that is named several times that its memory is divided.
pub(crate) fn shared(devices: &[(DeviceKind, Option<Bytes>)]) -> Vec<String> {
    let places = |kind| devices.iter().zip(0..).filter(move |(it, _)| it.0 == kind).map(|(_, at): (_, usize)| at);
    let firsts = devices.iter().zip(0..).filter(|(it, at)| places(it.0).next() == Some(*at)).map(|(it, _)| it.0);
    let told = |kind| {
        let all: Vec<_> = places(kind).map(|at| at.to_string()).collect();
        (1 < all.len()).then(|| format!("{} are one, {kind}, and share what it has", all.join(", ")))
    };
    firsts.filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_one_are_named() {
        use DeviceKind::{Cuda, Flex};
        let told = |kinds: &[DeviceKind]| shared(&kinds.iter().map(|it| (*it, None)).collect::<Vec<_>>());
        assert_eq!(told(&[Flex, Cuda(0), Flex]), ["0, 2 are one, flex, and share what it has"]);
        assert_eq!(told(&[Cuda(1), Cuda(0), Flex]), [""; 0]);
    }
}
