//! What reading a list of samples holds, `held_for`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, OpenOptions};
use std::path::Path;

use plimsoll_probe::{HeapCounters, TrackingAllocator};
use plimsoll_types::Bytes;
use plimsoll_workloads::Room;
use plimsoll_workloads::multitask::{Samples, SamplesConfig};
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig};

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::new();

/// Returns what comes of something, and what was held for it.
fn held_for<T>(act: impl FnOnce() -> T) -> (T, Bytes) {
    let heap = HeapCounters::of_program();
    heap.reset_peak();
    let (before, done) = (heap.current(), act());
    (done, Bytes((heap.peak() - before) as u64))
}

/// Makes a list longer than what reading it may hold, in a second line without end.
fn lengthen(list: &Path) {
    let file = OpenOptions::new().append(true).open(list).unwrap();
    file.set_len(64 << 20).unwrap();
}

#[test]
fn a_list_without_ends_of_lines_is_refused_and_not_held() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("labels.csv");
    fs::write(&list, "path,label\n").unwrap();
    lengthen(&list);
    let config = RecordingsConfig::new(folder.path().to_owned());
    let (read, held) = held_for(|| Recordings::read(&config).err().unwrap().to_string());
    assert!(read.contains("labels.csv, line 2: it is longer than 1048576 bytes"), "{read}");
    assert!(held < Bytes::mib(4), "{held}");

    let list = folder.path().join("samples.jsonl");
    fs::write(&list, "\n").unwrap();
    lengthen(&list);
    let config = SamplesConfig::new(folder.path().to_owned(), Room::boundless(folder.path()));
    let (read, held) = held_for(|| Samples::read(&config).unwrap_err().to_string());
    assert!(read.contains("samples.jsonl, line 2: it is longer than 1048576 bytes"), "{read}");
    assert!(held < Bytes::mib(4), "{held}");
}
