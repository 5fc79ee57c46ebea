//! A log of events: what is read is written again alike, and summed up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::limited;
use plimsoll_monitor::{History, RunFacts, StepsCsv, Table, TrainingReport, decode, decode_bytes, encode};
use plimsoll_types::Event;

fn written(events: &[Event]) -> String {
    events.iter().map(encode).collect()
}

fuzz_target!(|input: &[u8]| limited(|| {
    let Ok(log) = decode_bytes(input) else { return };
    let first = written(&log.events);
    let again = decode(&first).expect("what is written is read");
    assert_eq!(written(&again.events), first);
    let report = TrainingReport::new(&History::of(&log.events), RunFacts::default());
    drop((report.to_json(), report.to_markdown(), StepsCsv::default().of(&log.events)));
}));
