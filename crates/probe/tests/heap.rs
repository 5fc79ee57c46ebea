//! A program that counts its allocations.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

use plimsoll_probe::{CappedProbe, DeviceKind, HeapProbe, Host, Probe, ProbeError, TrackingAllocator, open, survey};
use plimsoll_types::Bytes;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// One test at a time: there is one heap. What the test harness itself allocates meanwhile is far below this.
const NOISE: Bytes = Bytes::kib(256);

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[track_caller]
fn assert_near(measured: Bytes, expected: Bytes) {
    let off = measured.saturating_sub(expected).max(expected.saturating_sub(measured));
    assert!(off <= NOISE, "{measured} measured, {expected} expected");
}

#[test]
fn a_block_shows_while_it_lives_and_in_the_peak_until_the_reset() {
    let _alone = alone();
    let mut probe = open(DeviceKind::Flex, None).unwrap();
    probe.reset_peak().unwrap();
    let before = probe.read().unwrap();

    let block = vec![1u8; 8 << 20];
    let during = probe.read().unwrap();
    drop(block);
    let after = probe.read().unwrap();
    probe.reset_peak().unwrap();
    let reset = probe.read().unwrap();

    assert_near(during.in_use, before.in_use.saturating_add(Bytes::mib(8)));
    assert_near(after.in_use, before.in_use);
    assert_near(after.peak, during.in_use);
    assert_near(reset.peak, before.in_use);
    assert_eq!(during.in_use, during.reserved);
    assert!(probe.has_exact_peak());
}

#[test]
fn blocks_that_threads_hold_at_once_add_up_in_the_peak() {
    const THREADS: usize = 8;
    let _alone = alone();
    let mut probe = open(DeviceKind::Flex, None).unwrap();
    probe.reset_peak().unwrap();
    let before = probe.read().unwrap();
    let everyone = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let block = vec![1u8; 1 << 20];
                everyone.wait();
                drop(block);
            });
        }
    });
    let after = probe.read().unwrap();
    assert_near(after.in_use, before.in_use);
    assert_near(after.peak, before.in_use.saturating_add(Bytes::mib(THREADS as u64)));
}

#[test]
#[cfg(target_os = "linux")]
fn a_cap_makes_the_heap_smaller_and_never_larger() {
    let _alone = alone();
    let capped = open(DeviceKind::Flex, Some(Bytes::mib(64))).unwrap();
    assert_eq!(capped.capacity().unwrap(), Bytes::mib(64));
    assert_eq!(capped.page().unwrap(), Bytes::ZERO);

    let most = Bytes::gib(1 << 20);
    let Err(error) = open(DeviceKind::Flex, Some(most)) else { panic!("a cap of a PiB was accepted") };
    // What other processes leave is another figure at every look.
    assert!(matches!(error, ProbeError::CapacityTooLarge { real, set, .. } if real < set && set == most), "{error}");
}

#[test]
fn a_system_that_does_not_tell_its_memory_takes_the_capacity_that_is_set() {
    let _alone = alone();
    let nowhere = tempfile::tempdir().unwrap();
    let heap = || HeapProbe::try_on(&Host::at(nowhere.path())).unwrap();
    assert_eq!(CappedProbe::try_new(heap(), Bytes::mib(64)).unwrap().capacity().unwrap(), Bytes::mib(64));
    let capped = CappedProbe::try_new(heap(), Bytes::mib(64)).unwrap();
    assert_eq!((capped.largest_allocation().unwrap(), capped.held_by_others()), (Bytes::mib(64), None));
    assert!(capped.read().unwrap().in_use > Bytes::ZERO);
    let error = heap().capacity().unwrap_err();
    assert!(error.to_string().ends_with("set one with `--capacity`"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_survey_has_the_figures_of_the_heap() {
    let _alone = alone();
    let entries = survey();
    let flex = entries.iter().find(|it| it.name == "flex").unwrap();
    let labels: Vec<_> = flex.found.as_ref().unwrap().figures.iter().map(|(label, _)| *label).collect();
    assert_eq!(labels, ["capacity", "in use", "reserved", "peak"]);
}
