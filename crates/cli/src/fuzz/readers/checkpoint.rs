//! The parts of a checkpoint that are no tensors.

use plimsoll_monitor::decode;
use plimsoll_sampler::EpochCursor;
use plimsoll_train::{Checkpoint, Controller, LoaderPosition, RunState, TaskBalance, ValidationState};
use plimsoll_types::Event;
use tempfile::{TempDir, tempdir};

use super::{JSON, logs, put};
use crate::fuzz::Reader;

const FOLDER: &str = "checkpoints/step-00000040";
/// What stands for tensors, which are read when the state has been.
const TENSORS: [&str; 3] = ["model.bpk", "optimizer.bpk", "weights.safetensors"];

/// The state of a run that has seen the events of a log.
fn state(log: &[u8]) -> RunState {
    let events = decode(std::str::from_utf8(log).unwrap()).unwrap().events;
    let Some(Event::RunStarted(head)) = events.first() else { panic!("the log has no head") };
    let mut controller = Controller::try_new(serde_json::from_str(&head.controller).unwrap()).unwrap();
    for event in &events {
        controller.learn(event).unwrap();
    }
    RunState {
        version: RunState::VERSION,
        kept: serde_json::from_str(r#"{"job":"sr","seed":0}"#).unwrap(),
        seed: 0,
        step: 40,
        seconds: 1.5,
        log_bytes: log.len() as u64,
        validated: true,
        best: None,
        budget: head.budget,
        position: LoaderPosition::Cut(EpochCursor::try_new(100, 7).unwrap()),
        epoch_samples: 16,
        controller,
        balance: TaskBalance::Fixed { weights: vec![1.0, 1.0] },
        unfit: None,
        validation: ValidationState::default(),
    }
}

/// Returns the checksums of a checkpoint with this state.
fn sums(state: &[u8]) -> Vec<u8> {
    let of =
        |bytes: &[u8]| serde_json::json!({ "bytes": bytes.len(), "crc32": format!("{:08x}", crc32fast::hash(bytes)) });
    let empty = TENSORS.map(|name| (name.to_owned(), of(b"")));
    let all = empty.into_iter().chain([("state.json".to_owned(), of(state))]);
    serde_json::Value::Object(all.collect()).to_string().into_bytes()
}

/// Reads a checkpoint with these files.
fn is_read(folder: &TempDir, state: &[u8], sums: &[u8]) -> bool {
    put(folder, &format!("{FOLDER}/state.json"), state);
    put(folder, &format!("{FOLDER}/checksums.json"), sums);
    Checkpoint::of_any(folder.path()).is_ok()
}

fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    for name in TENSORS {
        put(&folder, &format!("{FOLDER}/{name}"), b"");
    }
    folder
}

/// Returns an incident of a run that has seen the first events of a log, with the others.
pub(super) fn incident(log: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(log).unwrap();
    let (head, rest) = text.split_at(text.match_indices('\n').nth(20).unwrap().0 + 1);
    let events: Vec<serde_json::Value> = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let controller = state(head.as_bytes()).controller;
    let surroundings = [
        serde_json::json!({ "step": 40, "capacity": 1 << 30, "held_by_others": null, "reserved": 4096, "page": null, "largest_allocation": 8 }),
    ];
    let incident = serde_json::json!({
        "version": 2, "failure": "out of memory", "step": 40, "samples": [3, 1], "surroundings": surroundings,
        "controller": controller, "events": events,
    });
    incident.to_string().into_bytes()
}

/// The state beside a checkpoint's tensors, whose checksum is right.
#[test]
fn checkpoint() {
    let folder = folder();
    let mut read = |input: &[u8]| is_read(&folder, input, &sums(input));
    let corpus = logs().iter().map(|log| serde_json::to_vec(&state(log)).unwrap()).collect();
    Reader { name: "checkpoint", corpus, words: JSON, read: &mut read }.fuzz();
}

/// The checksums of a checkpoint.
#[test]
fn checksums() {
    let (folder, state) = (folder(), serde_json::to_vec(&state(&logs()[0])).unwrap());
    let mut read = |input: &[u8]| is_read(&folder, &state, input);
    let corpus = vec![sums(&state)];
    Reader { name: "checksums", corpus, words: JSON, read: &mut read }.fuzz();
}
