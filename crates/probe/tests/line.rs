//! A program whose allocations may not pass a line.

mod alone;

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use alone::alone;
use plimsoll_probe::{DeviceKind, HeapCounters, HeapProbe, Host, Probe, TrackingAllocator, open};
use plimsoll_types::Bytes;

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// What the test harness itself allocates meanwhile is far below this.
const NOISE: Bytes = Bytes::kib(256);

/// A machine of 1 GiB that is told how much of it is left.
struct Machine(tempfile::TempDir);

impl Machine {
    fn with_left(left: Bytes) -> Self {
        let machine = Self(tempfile::tempdir().expect("a folder for its files"));
        std::fs::create_dir(machine.0.path().join("proc")).expect("it is empty");
        machine.leave(left);
        machine
    }

    fn leave(&self, left: Bytes) {
        let text = format!("MemTotal: 1048576 kB\nMemAvailable: {} kB\n", left.0 / 1024);
        std::fs::write(self.0.path().join("proc/meminfo"), text).expect("the folder is there");
    }

    fn probe(&self) -> HeapProbe {
        HeapProbe::try_on(&Host::at(self.0.path())).expect("it is described")
    }
}

/// Draws the line where the real machine has it.
fn draw_back() {
    open(DeviceKind::Flex, None).and_then(|mut probe| probe.draw_line(None)).expect("the system tells its memory");
}

#[test]
fn what_others_take_beyond_a_line_is_seen_before_they_could_have_taken_it() {
    let _alone = alone();
    let machine = Machine::with_left(Bytes::gib(1));
    let mut probe = machine.probe();
    probe.draw_line(Some(Bytes::mib(512))).unwrap();
    machine.leave(Bytes::mib(32));
    // Half of the machine lies beyond the line.
    thread::sleep(Duration::from_millis(63));
    assert!(probe.capacity().unwrap() < Bytes::mib(64));
    draw_back();
}

#[test]
fn without_a_cap_the_line_is_where_the_machine_has_no_more() {
    let _alone = alone();
    Machine::with_left(Bytes::mib(64)).probe().draw_line(None).unwrap();
    // What others hold counts in parts of 16 MiB.
    let served = [Bytes::mib(48), Bytes::mib(80)].map(is_served);
    draw_back();
    assert_eq!(served, [true, false]);
}

/// Whether a block of this size is to be had.
fn is_served(block: Bytes) -> bool {
    let mut bytes = Vec::<u8>::new();
    let served = usize::try_from(block.0).is_ok_and(|size| bytes.try_reserve_exact(size).is_ok());
    black_box(bytes);
    served
}

#[test]
#[cfg(target_os = "linux")]
fn what_would_pass_the_line_is_refused_and_the_program_lives_on() {
    let _alone = alone();
    let held = Bytes(HeapCounters::of_program().current() as u64);
    let room = Bytes::mib(8);
    let mut capped = open(DeviceKind::Flex, Some(held.saturating_add(room))).unwrap();
    capped.draw_line(Some(Bytes::MAX)).unwrap();
    assert_eq!([Bytes::mib(4), Bytes::mib(16)].map(is_served), [true, false], "a cap is the line");
    let filled = vec![1u8; usize::try_from(room.0 - NOISE.0).expect("8 MiB can be addressed")];
    assert_eq!([Bytes::kib(64), Bytes::mib(1)].map(is_served), [true, false], "messages go on into the reserve");
    drop(filled);
    capped.draw_line(Some(held.saturating_add(Bytes::mib(2)))).unwrap();
    assert!(!is_served(Bytes::mib(4)), "the lower of both is the line");
    capped.draw_line(None).unwrap();
    assert!(is_served(Bytes::mib(16)), "without a cap the device is the line");
    // Of what is left, others may take some meanwhile.
    let all = Host::new().memory().unwrap().total;
    assert!(!is_served(all), "and no system is asked for more than there is");
}

/// Runs one test of this program again as a process of its own, with backtraces, and returns how it ended and what it said.
#[cfg(unix)]
fn run_as_child(name: &str) -> (std::process::ExitStatus, String) {
    let _alone = alone();
    let mut command = std::process::Command::new(std::env::current_exe().expect("a test is a file"));
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("RUST_BACKTRACE", "1");
    let (ended, sent) = std::sync::mpsc::channel();
    thread::spawn(move || drop(ended.send(command.output().expect("it starts"))));
    let output = sent.recv_timeout(Duration::from_mins(1)).expect("it ends, and does not wait for itself");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(unix)]
const CHILD: &str = "PLIMSOLL_TEST_CHILD";

/// Draws the line where this program is.
#[cfg(unix)]
fn fill_to_the_line() {
    let held = Bytes(HeapCounters::of_program().current() as u64);
    let mut probe = open(DeviceKind::Flex, None).expect("allocations are counted");
    probe.draw_line(Some(held)).expect("the system tells its memory");
}

#[test]
#[cfg(unix)]
fn a_program_that_is_refused_says_why_before_it_aborts() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(CHILD).is_some() {
        let stderr = std::os::fd::AsFd::as_fd(&std::io::stderr()).try_clone_to_owned().unwrap();
        plimsoll_probe::say_refusals_to(stderr.into());
        plimsoll_probe::note_work(format_args!("step {}, {} × {}", 12, 1, 96));
        open(DeviceKind::Flex, None).unwrap().draw_line(Some(Bytes::mib(64))).unwrap();
        drop(black_box(vec![1u8; 100 << 20]));
        return;
    }
    let (status, said) = run_as_child("a_program_that_is_refused_says_why_before_it_aborts");
    assert_eq!(status.signal(), Some(6), "SIGABRT: {said}");
    assert!(said.contains("an allocation of 100.00 MiB was refused while "), "{said}");
    assert!(said.contains(" were held, because the line is at 64.00 MiB (step 12, 1 × 96)"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_program_that_is_refused_at_the_line_aborts_though_its_backtrace_takes_memory() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(CHILD).is_some() {
        fill_to_the_line();
        drop(black_box(vec![1u8; 1 << 20]));
        return;
    }
    let (status, said) = run_as_child("a_program_that_is_refused_at_the_line_aborts_though_its_backtrace_takes_memory");
    assert_eq!(status.signal(), Some(6), "SIGABRT: {said}");
}

#[test]
#[cfg(unix)]
fn a_panic_at_the_line_is_told_in_full() {
    if std::env::var_os(CHILD).is_some() {
        fill_to_the_line();
        panic!("it is full");
    }
    let (status, said) = run_as_child("a_panic_at_the_line_is_told_in_full");
    assert_eq!(status.code(), Some(101), "{said}");
    assert!(said.contains("it is full") && said.contains("stack backtrace"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_panic_whose_backtrace_the_system_refuses_memory_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(CHILD).is_some() {
        let heap = HeapCounters::of_program();
        heap.set_limit(heap.current() + 4096);
        panic!("there is no more");
    }
    let (status, said) = run_as_child("a_panic_whose_backtrace_the_system_refuses_memory_ends_the_program");
    assert_eq!(status.signal(), Some(6), "SIGABRT: {said}");
}
