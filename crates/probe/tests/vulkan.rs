//! A Vulkan device, where one is installed; a software driver will do.
#![cfg(feature = "vulkan")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

mod alone;

use std::thread;

use alone::alone;
use plimsoll_probe::{CubeProbe, DeviceKind, Probe, ProbeError, VulkanAdapter, open, open_among, survey};
use plimsoll_types::Bytes;

fn device() -> Option<CubeProbe> {
    match CubeProbe::try_vulkan(0) {
        Ok(probe) => Some(probe),
        Err(error @ ProbeError::NoDevice { .. }) => {
            eprintln!("skipped: failed to {error}");
            None
        }
        Err(error) => panic!("failed to {error}"),
    }
}

#[test]
fn what_is_allocated_on_the_device_is_in_use_and_reserved() {
    let _alone = alone();
    let Some(mut probe) = device() else { return };
    let before = probe.read().unwrap();
    let tensor = probe.client().empty(3 << 20);
    let during = probe.read().unwrap();
    assert!(during.in_use >= before.in_use.saturating_add(Bytes::mib(3)), "{before:?}, {during:?}");
    assert!(during.reserved >= before.reserved.saturating_add(Bytes::mib(3)), "{before:?}, {during:?}");
    assert_eq!(during.peak, during.reserved);
    let page = probe.read().unwrap().page;
    assert!(page >= Bytes::mib(3), "a page holds the tensor: {page}");
    assert!(probe.capacity().unwrap() > during.reserved);

    drop(tensor);
    let after = probe.read().unwrap();
    assert!(after.in_use < during.in_use, "{during:?}, {after:?}");
    assert_eq!(after.reserved, during.reserved, "pages stay until a cleanup");
    probe.cleanup().unwrap();
    let cleaned = probe.read().unwrap();
    assert!(cleaned.reserved < during.reserved, "{during:?}, {cleaned:?}");
}

#[test]
fn an_index_beyond_the_last_adapter_is_an_error() {
    let error = CubeProbe::try_vulkan(99).unwrap_err();
    assert!(matches!(error, ProbeError::NoDevice { .. }), "{error}");
}

#[test]
fn every_probe_of_a_device_sees_what_any_thread_allocates() {
    let _alone = alone();
    let Some(probe) = device() else { return };
    let before = probe.read().unwrap();
    let client = probe.client().clone();
    let tensor = thread::spawn(move || client.empty(5 << 20)).join().unwrap();
    let other = open(DeviceKind::Vulkan(0), None).unwrap().read().unwrap();
    assert!(other.in_use >= before.in_use.saturating_add(Bytes::mib(5)), "{before:?}, {other:?}");
    drop(tensor);
}

#[test]
fn a_cap_makes_the_device_smaller() {
    let _alone = alone();
    let Some(probe) = device() else { return };
    let real = probe.capacity().unwrap();
    let capped = open(DeviceKind::Vulkan(0), Some(Bytes::mib(64))).unwrap();
    assert_eq!(capped.capacity().unwrap(), Bytes::mib(64));
    let Err(error) = open(DeviceKind::Vulkan(0), Some(Bytes(real.0 + 1))) else { panic!("more than {real} accepted") };
    assert!(error.to_string().ends_with(&format!("it has only {real}")), "{error}");
}

#[test]
fn two_ranks_on_one_device_divide_it_and_each_reads_what_its_own_thread_has() {
    let _alone = alone();
    let Some(probe) = device() else { return };
    let (real, client) = (probe.capacity().unwrap(), probe.client().clone());
    let devices = [(DeviceKind::Vulkan(0), None), (DeviceKind::Vulkan(0), Some(Bytes::mib(64)))];
    let others = client.empty(7 << 20);
    let on_thread = |at: usize, size: usize| {
        let client = client.clone();
        let work = move || {
            let probe = open_among(&devices, at).unwrap();
            let before = probe.read().unwrap();
            let tensor = client.empty(size);
            let during = probe.read().unwrap();
            drop(tensor);
            (during.in_use.saturating_sub(before.in_use), during.reserved, probe.capacity().unwrap())
        };
        thread::spawn(work).join().unwrap()
    };
    for (at, size, capacity) in [(0, 5 << 20, real.saturating_sub(Bytes::mib(64))), (1, 3 << 20, Bytes::mib(64))] {
        let (in_use, reserved, of_rank) = on_thread(at, size);
        assert!(Bytes(size as u64) <= in_use && in_use < Bytes::mib(6), "{in_use} for {size} B");
        assert!(
            Bytes(size as u64) <= reserved && reserved < Bytes::mib(7),
            "{reserved} for {size} B, without others' 7 MiB"
        );
        assert_eq!(of_rank, capacity);
    }
    drop(others);
}

#[test]
fn the_survey_lists_every_adapter() {
    let _alone = alone();
    let n_adapters = VulkanAdapter::all().len();
    let entries = survey();
    let found = entries.iter().filter(|it| it.name.starts_with("vulkan:") && it.found.is_ok()).count();
    assert_eq!(found, n_adapters, "{entries:?}");
}
