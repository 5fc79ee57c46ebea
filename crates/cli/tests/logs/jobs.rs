//! One run of each job.

use crate::run::{Run, SR};

#[test]
fn sr() {
    Run::new("sr", "sr", "512MiB", 20, &SR).alone().check();
}

pub(crate) const SEQUENCE: [&str; 4] =
    ["sequence.heads=1", "sequence.head_width=8", "sequence.blocks=1", "batch.effective_batch_size=16"];

pub(crate) const MULTITASK: [&str; 3] = ["multitask.channels=4", "multitask.features=8", "multitask.image_size=16"];

pub(crate) const TEXT: [&str; 5] =
    ["text.width=16", "text.layers=1", "text.heads=1", "text.vocabulary=300", "text.longest=64"];

#[test]
fn sequence_that_is_planned() {
    let sets = [&SEQUENCE[..], &["data.stream=false"]].concat();
    Run::new("sequence-planned", "sequence", "224MiB", 16, &sets).alone().check();
}

#[test]
fn sequence_that_is_streamed() {
    let sets = [&SEQUENCE[..], &["data.look_ahead=16"]].concat();
    Run::new("sequence-streamed", "sequence", "224MiB", 16, &sets).alone().check();
}

#[test]
fn multitask() {
    Run::new("multitask", "multitask", "320MiB", 16, &MULTITASK).alone().check();
}

#[test]
fn text_that_is_packed() {
    let sets = [&TEXT[..], &["batch.effective_batch_size=512", "batch.pack=true", "batch.row_len=128"]].concat();
    Run::new("text-packed", "text", "384MiB", 16, &sets).alone().check();
}

#[test]
fn text() {
    let sets = [&TEXT[..], &["batch.effective_batch_size=512"]].concat();
    Run::new("text", "text", "384MiB", 16, &sets).alone().check();
}
