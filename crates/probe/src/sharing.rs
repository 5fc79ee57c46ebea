//! Several users of one device in one process.

use plimsoll_types::Bytes;

use crate::{DeviceKind, ProbeError};

/// How what a device has is divided among those of a process that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// What is set for the others.
    set: Bytes,
    /// Among how many the rest is divided.
    among: u64,
}

impl Sharing {
    /// Returns what the one at a place has of its device, where others of the list are the same one.
    ///
    /// # Panics
    ///
    /// When there is none at that place.
    pub(crate) fn of(devices: &[(DeviceKind, Option<Bytes>)], at: usize) -> Option<Self> {
        let (kind, own) = devices[at];
        let all = devices.iter().enumerate().filter(|(_, it)| it.0 == kind);
        let others: Vec<_> = all.filter(|(place, _)| *place != at).map(|(_, it)| it.1).collect();
        if others.is_empty() {
            return None;
        }
        let set = others.iter().flatten().copied().fold(Bytes::ZERO, Bytes::saturating_add);
        // One that is told its own size leaves the rest to the others.
        let among = if own.is_some() { 1 } else { 1 + others.iter().filter(|it| it.is_none()).count() as u64 };
        Some(Self { set, among })
    }

    /// Returns one's own part of what there is for all.
    pub(crate) fn part_of(self, all: Bytes) -> Bytes {
        Bytes(all.saturating_sub(self.set).0 / self.among)
    }

    /// Says of a capacity that is too large what is set for the others.
    pub(crate) fn named_in(self, error: ProbeError) -> ProbeError {
        match error {
            ProbeError::CapacityTooLarge { device, set, real } if Bytes::ZERO < self.set => {
                let device = format!("{device}, of which others are set {},", self.set);
                ProbeError::CapacityTooLarge { device, set, real }
            }
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_for_some_is_left_to_them_and_the_rest_divided_evenly() {
        use DeviceKind::{Flex, Vulkan};
        let [mib4, mib6] = [4, 6].map(|n| Some(Bytes::mib(n)));
        let part = |devices: &[_], at| Sharing::of(devices, at).map(|it| it.part_of(Bytes::mib(30)).0 >> 20);
        let same = [(Flex, None), (Vulkan(0), None), (Flex, mib4), (Flex, None), (Flex, mib6), (Vulkan(1), mib6)];
        assert_eq!([0, 2, 3, 4].map(|at| part(&same, at)), [10, 24, 10, 26].map(Some));
        assert_eq!([1, 5].map(|at| part(&same, at)), [None, None], "a device of one's own is shared with nobody");
        assert_eq!(part(&[(Flex, None); 3], 2), Some(10));
    }

    #[test]
    fn a_capacity_that_is_too_large_beside_others_names_theirs() {
        let sharing = Sharing { set: Bytes::gib(5), among: 1 };
        let error = || ProbeError::CapacityTooLarge { device: "card".into(), set: Bytes::gib(6), real: Bytes::gib(2) };
        let told = "cap card, of which others are set 5.00 GiB, at 6.00 GiB: it has only 2.00 GiB";
        assert_eq!(sharing.named_in(error()).to_string(), told);
        let alone = Sharing { set: Bytes::ZERO, among: 2 };
        assert_eq!(alone.named_in(error()).to_string(), error().to_string());
    }
}
