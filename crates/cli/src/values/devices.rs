//! Devices, and what may be used of each.

use std::fmt;
use std::str::FromStr;

use plimsoll_probe::{DeviceKind, ParseDeviceKindError};
use plimsoll_types::Bytes;
use serde::Deserialize;

use super::TextOrNumber;
use crate::nearest::hint;

/// What separates the entries of a list.
const SEPARATOR: char = ',';

/// The devices of a run, in the order of its ranks; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Devices(Vec<DeviceKind>);

/// What may be used of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// The demonstration's size for the demonstration, or else all that the device has.
    Auto,
    /// All that the device has.
    Device,
    /// This, and not more.
    Size(Bytes),
}

/// What may be used of each device, or the same of all; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
pub(crate) struct Capacities(Vec<Capacity>);

impl Devices {
    pub(crate) fn first(&self) -> DeviceKind {
        self.0[0]
    }

    /// Returns the one at this place alone.
    pub(crate) fn only(&self, place: usize) -> Self {
        Self(vec![self.0[place]])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = DeviceKind> {
        self.0.iter().copied()
    }

    pub(crate) fn n(&self) -> usize {
        self.0.len()
    }
}

impl FromStr for Devices {
    type Err = ParseDeviceKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(SEPARATOR).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<String> for Devices {
    type Error = String;

    /// Reads names of devices, whose families may be misspelt.
    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error| {
            let is_wrong = |it: &&str| it.parse::<DeviceKind>().is_err();
            let wrong = text.split(SEPARATOR).find(is_wrong).unwrap_or_default();
            let family = wrong.split(':').next().unwrap_or_default().trim();
            let several = if text.contains(SEPARATOR) { ", and a comma between two" } else { "" };
            format!("{error}{several}{}", hint(family, ["flex", "vulkan", "cuda"]))
        })
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

impl Capacities {
    /// Returns what may be used of the device at this place.
    pub(crate) fn at(&self, place: usize) -> Capacity {
        self.0.get(place).copied().unwrap_or(self.0[0])
    }

    /// Sets what may be used of the only device.
    pub(crate) fn set(&mut self, capacity: Capacity) {
        self.0 = vec![capacity];
    }

    /// Returns that of the device at this place alone.
    pub(crate) fn only(&self, place: usize) -> Self {
        Self(vec![self.at(place)])
    }

    /// Returns for how many devices it is, where it is not the same for all.
    pub(crate) fn n(&self) -> Option<usize> {
        Some(self.0.len()).filter(|n| 1 < *n)
    }
}

impl TryFrom<TextOrNumber> for Capacities {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, String> {
        match value {
            TextOrNumber::Number(n) => Ok(Self(vec![Capacity::Size(Bytes(n))])),
            TextOrNumber::Text(text) => text.split(SEPARATOR).map(str::parse).collect::<Result<_, _>>().map(Self),
        }
    }
}

impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "device" => Ok(Self::Device),
            size => size.parse().map(Self::Size).map_err(|error| format!("{error}, or \"auto\" or \"device\"")),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Device => f.write_str("device"),
            Self::Size(size) => size.fmt(f),
        }
    }
}

impl fmt::Display for Capacities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_devices_reads_as_it_is_written() {
        for (text, written) in
            [("flex", "flex"), ("cpu,FLEX", "flex, flex"), ("vulkan , cuda:1,flex", "vulkan:0, cuda:1, flex")]
        {
            let devices: Devices = text.parse().unwrap();
            assert_eq!(devices.to_string(), written);
            assert_eq!(written.parse(), Ok(devices));
        }
    }

    #[test]
    fn a_capacity_is_for_each_device_or_for_all() {
        let of = |text: &str| Capacities::try_from(TextOrNumber::Text(text.to_owned())).unwrap();
        let (all, each) = (of("20 MiB"), of("20MiB, device ,auto"));
        assert_eq!([0, 9].map(|place| all.at(place)), [Capacity::Size(Bytes::mib(20)); 2]);
        assert_eq!((all.n(), each.n()), (None, Some(3)));
        assert_eq!((each.at(1), each.at(2)), (Capacity::Device, Capacity::Auto));
        assert_eq!(each.to_string(), "20.00 MiB, device, auto");
    }
}
