//! Limits that follow from the data, and those that are refused with what would do.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/recordings.rs"]
mod recordings;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{refused, text};
use recordings::recordings;

fn plimsoll(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args).current_dir(folder).env_remove("PLIMSOLL_WORKER");
    command.output().unwrap()
}

#[track_caller]
fn trains(folder: &Path, args: &[&str]) -> Output {
    let output = plimsoll(folder, &[&["train", "--no-supervise", "--overwrite", "--out", "run"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    output
}

/// Writes fables of about so many words, each in a file of its own.
fn fables(folder: &Path, n: usize, n_words: usize) {
    const WORDS: [&str; 7] = ["the", "fox", "and", "the", "crow", "saw", "cheese"];
    fs::create_dir(folder.join("fables")).unwrap();
    for fable in 0..n {
        let mut told = String::new();
        (0..n_words + fable).for_each(|at| write!(told, "{} ", WORDS[(at * (fable + 1)) % WORDS.len()]).unwrap());
        fs::write(folder.join(format!("fables/{fable}.txt")), told).unwrap();
    }
}

#[test]
fn twelve_short_fables_train_and_a_limit_that_is_too_small_is_refused_with_one_that_does() {
    let folder = tempfile::tempdir().unwrap();
    fables(folder.path(), 12, 120);
    let small = ["--set", "text.layers=1", "--set", "text.width=16", "--set", "text.vocabulary=300"];
    let all = [&["--job", "text", "--data", "fables", "--steps", "2", "--capacity", "160MiB"][..], &small].concat();
    trains(folder.path(), &all);

    let limited = |limit: &str| {
        let limit = format!("data.buffer_limit={limit}");
        plimsoll(
            folder.path(),
            &[&["train", "--no-supervise", "--overwrite", "--out", "run", "--set", &limit], &all[..]].concat(),
        )
    };
    let output = limited("100 KiB");
    refused(&output, &["`data.buffer_limit` is 100.00 KiB", "two steps of ", "or \"auto\" would do"]);
    let told = text(&output.stderr);
    let value = told.split("`data.buffer_limit = \"").nth(1).unwrap().split('"').next().unwrap();
    let output = limited(value);
    assert!(output.status.success(), "{value}: {}", text(&output.stderr));
}

#[test]
fn one_long_recording_among_short_ones_needs_no_setting() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 10.0);
    let small = ["--set", "sequence.blocks=1", "--set", "sequence.head_width=4", "--set", "sequence.heads=1"];
    let all = [&["--job", "sequence", "--data", ".", "--steps", "2", "--capacity", "2GiB"][..], &small].concat();
    trains(folder.path(), &all);
}

#[test]
fn a_device_of_gigabytes_trains_without_a_setting() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--set", "sr.channels=2", "--set", "sr.blocks=1"];
    trains(folder.path(), &[&["--steps", "2", "--capacity", "8GiB"][..], &small].concat());
}

#[test]
fn steps_that_half_of_the_memory_does_not_hold_are_refused_with_what_would_help() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |more: &[&str]| {
        plimsoll(folder.path(), &[&["find", "--set", "batch.effective_batch_size=2048"], more].concat())
    };
    let output = plan(&[]);
    refused(&output, &["more than half of the 40.00 MiB that there are", "a smaller `batch.effective_batch_size`"]);
}
