//! Event files, read again by a reader of our own that shares nothing with the writer.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use plimsoll_monitor::TensorBoard;
use plimsoll_types::{Event, StepDone, TaskStep};

use crate::exposition::SUPPLY;
use crate::run;

/// The Castagnoli polynomial, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn take<'a>(from: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(n);
    *from = rest;
    taken
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

/// Takes a record, whose checksums must be right.
fn record<'a>(from: &mut &'a [u8]) -> &'a [u8] {
    let check = |bytes: &[u8], masked: u32| {
        let crc = masked.wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!(crc, crc32c(bytes));
    };
    let length = take(from, 8);
    check(length, u32_of(take(from, 4)));
    let message = take(from, usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap());
    check(message, u32_of(take(from, 4)));
    message
}

fn varint(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(from, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// Splits a message into its fields: number, and bytes or the bytes of a number.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let bytes = match key & 7 {
            0 => varint(&mut message).to_le_bytes().to_vec(),
            1 => take(&mut message, 8).to_vec(),
            2 => {
                let n = varint(&mut message);
                take(&mut message, usize::try_from(n).unwrap()).to_vec()
            }
            5 => take(&mut message, 4).to_vec(),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, bytes));
    }
    fields
}

fn field(fields: &[(u64, Vec<u8>)], number: u64) -> &[u8] {
    &fields.iter().find(|it| it.0 == number).unwrap().1
}

/// Returns the step of a record and its scalars.
fn scalars(record: &[u8]) -> (u64, Vec<(String, f32)>) {
    let event = fields(record);
    let scalar = |value: &(u64, Vec<u8>)| {
        let value = fields(&value.1);
        let tag = String::from_utf8(field(&value, 1).to_vec()).unwrap();
        (tag, f32::from_bits(u32_of(field(&value, 2))))
    };
    let step = u64::from_le_bytes(field(&event, 2).try_into().unwrap());
    (step, fields(field(&event, 5)).iter().map(scalar).collect())
}

/// Takes the records with which a file begins at a step.
fn begin(from: &mut &[u8], step: u64) {
    assert_eq!(field(&fields(record(from)), 3), b"brain.Event:2");
    again(from, step);
}

/// Takes the record that makes steps void.
fn again(from: &mut &[u8], step: u64) {
    let fields = fields(record(from));
    assert_eq!((field(&fields, 2), field(&fields, 7)), (&step.to_le_bytes()[..], &[8, 1][..]), "SessionLog.START");
}

fn done(step: u64) -> Event {
    Event::StepDone(run::step(step, run::knobs(16, 4)))
}

#[test]
fn a_file_begins_as_those_of_tensorflow_do() {
    let mut writer = TensorBoard::default();
    let bytes = writer.hear(&done(7), 1.5).to_vec();
    // The length 24 and its checksum stand at the beginning of every event file.
    assert_eq!(bytes[..12], [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    assert_eq!(bytes[12..21], [&[9][..], &1.5_f64.to_le_bytes()].concat());
    let mut rest = bytes.as_slice();
    begin(&mut rest, 7);
    assert_eq!(scalars(record(&mut rest)).0, 7);
    assert!(rest.is_empty());
}

#[test]
fn steps_that_come_again_make_void_what_was_shown_of_them() {
    let mut writer = TensorBoard::default();
    let mut rest = writer.hear(&done(7), 0.0);
    begin(&mut rest, 7);
    for step in [8, 9] {
        let mut rest = writer.hear(&done(step), 0.0);
        assert_eq!(scalars(record(&mut rest)).0, step);
    }
    let mut rest = writer.hear(&done(8), 0.0);
    again(&mut rest, 8);
    assert_eq!(scalars(record(&mut rest)).0, 8);
    // A validation after step 8 makes nothing void.
    let mut rest = writer.hear(&run::validated(9), 0.0);
    assert_eq!(scalars(record(&mut rest)).0, 8);
}

#[test]
fn every_number_of_a_step_has_a_tag() {
    let mut writer = TensorBoard::default();
    let events = run::small();
    let mut seen = Vec::new();
    for (at, event) in (0_u8..).zip(&events) {
        let mut bytes = writer.hear(event, f64::from(at));
        if at == 1 {
            begin(&mut bytes, 0);
        }
        if matches!(event, Event::StepDone(_) | Event::Validated(_)) {
            seen.push(scalars(record(&mut bytes)));
        }
        assert!(bytes.is_empty(), "{event:?}");
    }
    let of = |step: u64, tag: &str| seen.iter().filter(|it| it.0 == step).flat_map(|it| &it.1).find(|it| it.0 == tag);
    let value = |step: u64, tag: &str| of(step, tag).map(|it| f64::from(it.1));
    let Event::StepDone(StepDone { loss, peak, .. }) = &events[1] else { unreachable!("the first step") };
    assert!((value(0, "loss/training").unwrap() - loss).abs() < 1e-6);
    assert!((value(0, "memory/peak_bytes").unwrap() - peak.as_f64()).abs() < 8.0);
    assert_eq!(value(0, "memory/predicted_bytes"), None, "nothing was foreseen yet");
    assert!(value(1, "memory/predicted_bytes").is_some());
    assert_eq!((value(2, "step/out_of_memory_total"), value(3, "step/out_of_memory_total")), (Some(0.0), Some(1.0)));
    assert!(of(2, "validation/PSNR (dB)").is_some(), "after three steps");
}

#[test]
fn a_test_of_an_earlier_model_is_shown_at_the_last_step_and_makes_nothing_void() {
    let mut writer = TensorBoard::default();
    for step in 0..6 {
        writer.hear(&done(step), 0.0);
    }
    let Event::Validated(test) = run::validated(3) else { unreachable!("a validation") };
    let mut bytes = writer.hear(&Event::Tested(test), 0.0);
    let (step, tags) = scalars(record(&mut bytes));
    assert!(bytes.is_empty() && step == 5, "{step}");
    let names: Vec<_> = tags.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(names, ["test/PSNR (dB)", "test/baseline", "test/seconds", "test/peak_bytes"]);
}

#[test]
fn a_stream_has_tags_of_what_is_read_ahead() {
    let step = StepDone { supply: Some(SUPPLY), ..run::step(0, run::knobs(16, 4)) };
    let mut writer = TensorBoard::default();
    let mut bytes = writer.hear(&Event::StepDone(step), 0.0);
    begin(&mut bytes, 0);
    let tags = scalars(record(&mut bytes)).1;
    for expected in [("stream/waited_seconds", 0.125), ("stream/ready_steps", 3.0), ("stream/buffer_fill", 0.5)] {
        assert!(tags.iter().any(|it| (it.0.as_str(), f64::from(it.1)) == expected), "{expected:?} in {tags:?}");
    }
}

#[test]
fn tasks_have_tags_of_their_names() {
    let Event::RunStarted(mut start) = run::started(2) else { unreachable!("a start") };
    start.tasks = vec!["digits".to_owned(), "pairs".to_owned()];
    let mut writer = TensorBoard::default();
    assert!(writer.hear(&Event::RunStarted(start), 0.0).is_empty());
    let task = |loss| TaskStep { samples: 4, loss, gradient_norm: None, weight: 0.5 };
    let step = StepDone { tasks: vec![task(Some(2.0)), task(None)], ..run::step(300, run::knobs(16, 4)) };
    let mut bytes = writer.hear(&Event::StepDone(step), 0.0);
    begin(&mut bytes, 300);
    let (step, tags) = scalars(record(&mut bytes));
    assert_eq!(step, 300);
    for expected in [("task_loss/digits", 2.0), ("task_weight/digits", 0.5), ("task_weight/pairs", 0.5)] {
        assert!(tags.iter().any(|it| (it.0.as_str(), f64::from(it.1)) == expected), "{expected:?} in {tags:?}");
    }
    assert!(!tags.iter().any(|it| it.0 == "task_loss/pairs"));
}
