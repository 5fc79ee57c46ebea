//! A program that counts its allocations.

mod alone;

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;

use alone::alone;
use plimsoll_probe::{
    CappedProbe, Compartment, DeviceKind, HeapCounters, HeapProbe, Host, Probe, ProbeError, TrackingAllocator, open,
    open_among, survey,
};
use plimsoll_types::Bytes;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// One test at a time: there is one heap. What the test harness itself allocates meanwhile is far below this.
const NOISE: Bytes = Bytes::kib(256);

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
    assert_eq!(capped.read().unwrap().page, Bytes::ZERO);

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
    assert!(error.to_string().ends_with("a capacity that is set would do"), "{error}");
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

#[test]
fn what_a_thread_beside_takes_is_no_need_of_what_runs_meanwhile() {
    let _alone = alone();
    let mut probe = open(DeviceKind::Flex, None).unwrap();
    let turns = Arc::new(Barrier::new(2));
    let own = Arc::clone(&turns);
    let thread = thread::spawn(move || {
        plimsoll_probe::count_beside();
        let mut held = Vec::new();
        for size in [4usize << 20, 0, 3 << 20, 0] {
            own.wait();
            held = black_box(vec![1u8; size]);
            own.wait();
        }
        drop(held);
    });
    let next = || {
        turns.wait();
        turns.wait();
    };
    let before = probe.read().unwrap();
    // It takes and returns its first block, which counts from the next window on.
    next();
    next();
    // One window in which it takes its second block, and one in which it returns it.
    for _ in 0..2 {
        probe.reset_peak().unwrap();
        let resident = probe.read().unwrap().in_use;
        let block = black_box(vec![1u8; 2 << 20]);
        next();
        drop(block);
        let after = probe.read().unwrap();
        assert_near(resident, before.in_use.saturating_add(Bytes::mib(4)));
        assert_near(after.peak, resident.saturating_add(Bytes::mib(2)));
        assert_near(after.in_use, resident);
    }
    thread.join().unwrap();
}

/// Four devices on one heap.
const DEVICES: [(DeviceKind, Option<Bytes>); 4] = [
    (DeviceKind::Flex, Some(Bytes::mib(64))),
    (DeviceKind::Flex, Some(Bytes::mib(32))),
    (DeviceKind::Flex, None),
    (DeviceKind::Flex, None),
];

/// Works on one of them.
fn on_device(at: usize, work: impl FnOnce(&mut dyn Probe) + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        Compartment::at(at).expect("there are more").enter();
        work(&mut *open_among(&DEVICES, at).expect("allocations are counted"));
    })
}

fn in_use(at: usize) -> Bytes {
    let probe = open_among(&DEVICES, at).expect("allocations are counted");
    probe.read().expect("a heap can be read").in_use
}

#[test]
#[cfg(target_os = "linux")]
fn devices_on_one_heap_have_capacities_and_peaks_of_their_own() {
    let _alone = alone();
    let turns = Arc::new(Barrier::new(2));
    let devices = [(0, 8 << 20), (1, 3 << 20)].map(|(at, size)| {
        let turns = Arc::clone(&turns);
        on_device(at, move |probe| {
            probe.reset_peak().unwrap();
            let before = probe.read().unwrap().in_use;
            turns.wait();
            // Both at once.
            let block = black_box(vec![1u8; size]);
            turns.wait();
            drop(block);
            let reading = probe.read().unwrap();
            assert_eq!(reading.in_use, before);
            assert_eq!(reading.peak, Bytes(before.0 + size as u64), "to the byte, whatever the other one took");
            assert_eq!(probe.largest_taken(), Some(Bytes(size as u64)));
            assert_eq!(probe.capacity().unwrap(), Bytes::mib([64, 32][at]));
            assert!(probe.has_exact_peak());
            probe.reset_peak().unwrap();
            assert!(probe.read().unwrap().peak < reading.peak);
        })
    });
    for device in devices {
        device.join().unwrap();
    }
    assert_eq!([0, 1].map(in_use), [Bytes::ZERO; 2], "what threads took is gone with them");
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_left_of_the_heap_is_divided_among_devices_without_a_capacity() {
    let _alone = alone();
    let all = || open(DeviceKind::Flex, None).unwrap().capacity().unwrap().0;
    for at in [2, 3] {
        let before = all();
        let part = open_among(&DEVICES, at).unwrap().capacity().unwrap().0;
        let after = all();
        // What others hold counts in grains of a 64th, and moves meanwhile.
        let (least, most) = (before.min(after), before.max(after));
        assert!(least / 16 * 7 < part && part < most / 16 * 9, "{part} is about half of {before} to {after}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn devices_that_are_set_more_than_there_is_say_what_is_set_for_others() {
    let _alone = alone();
    let all = open(DeviceKind::Flex, None).unwrap().capacity().unwrap();
    // More than all, however much others free meanwhile.
    let most = Some(Bytes(all.0 / 8 * 7));
    let Err(error) = open_among(&[(DeviceKind::Flex, most); 2], 1) else { panic!("seven quarters of {all} were set") };
    assert!(matches!(error, ProbeError::CapacityTooLarge { .. }), "{error}");
    assert!(error.to_string().contains("of which others are set "), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_block_counts_where_it_was_taken_wherever_it_is_returned() {
    let _alone = alone();
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    let taken = on_device(2, move |_| {
        for _ in 0..100 {
            sender.send(vec![1u8; 1 << 20]).unwrap();
        }
    });
    taken.join().unwrap();
    let held = in_use(2);
    assert!(Bytes::mib(100) <= held && held < Bytes::mib(101), "{held}");
    let returned = on_device(3, move |probe| {
        let before = probe.read().unwrap().in_use;
        let mut last = receiver.into_iter().last().unwrap();
        assert_eq!(probe.read().unwrap().in_use, before, "what it has returned was not its own");
        last.resize(2 << 20, 1);
        assert_eq!(probe.read().unwrap().in_use.0, before.0 + (2 << 20), "what it has resized is its own");
    });
    returned.join().unwrap();
    assert_eq!([2, 3].map(in_use), [Bytes::ZERO; 2]);
}

#[test]
#[cfg(target_os = "linux")]
fn what_reads_ahead_for_a_device_counts_beside_its_work() {
    let _alone = alone();
    let done = on_device(0, |probe| {
        let (own, turns) = (Compartment::of_thread().unwrap(), Arc::new(Barrier::new(2)));
        let of_thread = Arc::clone(&turns);
        let ahead = thread::spawn(move || {
            own.enter();
            plimsoll_probe::count_beside();
            let batch = black_box(vec![1u8; 4 << 20]);
            of_thread.wait();
            of_thread.wait();
            drop(batch);
        });
        turns.wait();
        probe.reset_peak().unwrap();
        let resident = probe.read().unwrap().in_use;
        assert!(Bytes::mib(4) <= resident, "{resident}");
        turns.wait();
        ahead.join().unwrap();
        let after = probe.read().unwrap();
        assert_eq!((after.in_use, after.peak), (resident, resident), "the same from one reset to the next");
        // Device and heap forget what was held beside, so that no other test takes it for its own.
        for _ in 0..200 {
            probe.reset_peak().unwrap();
        }
    });
    done.join().unwrap();
    for _ in 0..200 {
        HeapCounters::of_program().reset_peak();
    }
}
