//! Recording a step takes no memory in the steady state, whoever listens.

use std::alloc::System;

use plimsoll_monitor::{Exposition, TensorBoard, View, encode_into};
use plimsoll_probe::{HeapCounters, TrackingAllocator};
use plimsoll_proof::step_done;
use plimsoll_types::{Event, Knobs};

static COUNTERS: HeapCounters = HeapCounters::new();

#[global_allocator]
static HEAP: TrackingAllocator = TrackingAllocator::wrap(System, &COUNTERS);

const RUNG: Knobs = Knobs { patch_size: 64, micro_batch_size: 8 };

/// The only test of this file: another one would allocate beside it.
#[test]
fn a_step_is_recorded_without_taking_memory_once_there_is_room_for_one() {
    let events = [7, 1_000_000, 1_000_001].map(|step| Event::StepDone(step_done(step, RUNG)));
    let (mut line, mut exposition, mut records) = (Vec::new(), Exposition::default(), TensorBoard::default());
    let (mut view, mut n_bytes) = (View::default(), 0);
    let mut record = |event: &Event| {
        line.clear();
        encode_into(&mut line, event);
        exposition.hear(event);
        view.hear(event);
        n_bytes += line.len() + records.hear(event, 1.5).len();
    };
    // Later steps have more digits; the second has the room that the third takes. A view keeps the peaks of some steps.
    (0..100).for_each(|_| record(&events[0]));
    record(&events[1]);
    COUNTERS.reset_peak();
    let before = COUNTERS.current();
    for _ in 0..100 {
        record(&events[2]);
    }
    assert_eq!(COUNTERS.peak(), before, "the recording of a step took memory");
    assert!(100 * 200 < n_bytes, "something was recorded");
    let text = exposition.to_text();
    assert!(before < COUNTERS.peak(), "memory that is taken is seen: {} bytes of text", text.len());
}
