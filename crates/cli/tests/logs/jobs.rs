//! One run of each job.

use crate::run::{Run, SR};

#[test]
fn sr() {
    Run::new("sr", "sr", "512MiB", 20, &SR).alone().check();
}

const SEQUENCE: [&str; 4] =
    ["sequence.heads=1", "sequence.head_width=8", "sequence.blocks=1", "batch.effective_batch_size=16"];

#[test]
fn sequence_that_is_planned() {
    let sets = [&SEQUENCE[..], &["sequence.stream=false"]].concat();
    Run::new("sequence-planned", "sequence", "224MiB", 16, &sets).alone().check();
}

#[test]
fn sequence_that_is_streamed() {
    let sets = [&SEQUENCE[..], &["data.look_ahead=16"]].concat();
    Run::new("sequence-streamed", "sequence", "224MiB", 16, &sets).alone().check();
}

#[test]
fn multitask() {
    let sets = ["multitask.channels=4", "multitask.features=8", "multitask.image_size=16"];
    Run::new("multitask", "multitask", "320MiB", 16, &sets).alone().check();
}

#[test]
fn text() {
    let sets = ["text.width=16", "text.layers=1", "text.heads=1", "text.vocabulary=300", "text.longest=64"];
    let sets = [&sets[..], &["batch.effective_batch_size=512"]].concat();
    Run::new("text", "text", "384MiB", 16, &sets).alone().check();
}
