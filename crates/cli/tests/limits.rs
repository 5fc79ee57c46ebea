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
    fs::create_dir(folder.join("fables")).unwrap();
    for fable in 0..n {
        let mut told = String::new();
        (0..n_words + fable).for_each(|at| write!(told, "{} ", at * 7919 * (fable + 1) % 10_007).unwrap());
        fs::write(folder.join(format!("fables/{fable}.txt")), told).unwrap();
    }
}

#[test]
fn twelve_short_fables_train_and_a_limit_that_is_too_small_is_refused_with_one_that_does() {
    let folder = tempfile::tempdir().unwrap();
    fables(folder.path(), 12, 160);
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

/// Returns the capacity that a refusal says would do.
#[track_caller]
fn advised(output: &Output) -> String {
    let told = text(&output.stderr);
    let after = told.split("a capacity of ").last().filter(|_| told.contains("a capacity of "));
    let mut words = after.unwrap_or_else(|| panic!("{told}")).trim_start_matches("at least ").split([' ', ',', ';']);
    format!("{} {}", words.next().unwrap(), words.next().unwrap())
}

#[test]
fn the_capacity_that_a_refused_recording_would_need_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 8.0);
    let small = ["--set", "sequence.blocks=1", "--set", "sequence.head_width=4", "--set", "sequence.heads=2"];
    let run = |capacity: &str| {
        let args = ["train", "--no-supervise", "--overwrite", "--out", "run", "--job", "sequence", "--data", "."];
        let run = ["--steps", "1", "--set", "batch.effective_batch_size=4", "--capacity", capacity];
        let whole = ["--set", "memory.gradient_checkpointing=off"];
        plimsoll(folder.path(), &[&args[..], &run, &whole, &small].concat())
    };
    let output = run("8MiB");
    refused(&output, &["is not certain to fit", "and at most ", "which is certain to do"]);
    let capacity = advised(&output);
    let output = run(&capacity);
    assert!(output.status.success(), "{capacity}: {}", text(&output.stderr));
}

#[test]
fn the_capacity_that_a_refused_image_would_need_is_enough_for_the_whole_folder() {
    let (folder, images) =
        (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr"));
    let data = images.display().to_string();
    let small = ["--set", "sr.channels=2", "--set", "sr.blocks=1", "--set", "sr.validation_tile=16"];
    let run = |capacity: &str| {
        let args = ["train", "--no-supervise", "--overwrite", "--out", "run", "--steps", "1", "--data", &data];
        plimsoll(folder.path(), &[&args[..], &["--capacity", capacity], &small].concat())
    };
    let output = run("100 KiB");
    refused(&output, &["00_leaves.png", "to decode its "]);
    let output = run(&advised(&output));
    assert!(!text(&output.stderr).contains("to decode its "), "{}", text(&output.stderr));
}

#[test]
fn the_built_in_data_are_a_demonstration_and_other_data_have_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr").display().to_string();
    let small = ["--steps", "1", "--set", "sr.channels=2", "--set", "sr.blocks=1"];
    let told = |more: &[&str]| text(&trains(folder.path(), &[&small[..], more].concat()).stderr);
    let demo = told(&[]);
    assert!(demo.contains("capacity 40.00 MiB, budget 36.00 MiB") && !demo.contains("--capacity device"), "{demo}");
    let own = told(&["--data", &images]);
    assert!(!own.contains("capped at") && own.contains("patch 16 to 32"), "{own}");
    let capped = told(&["--capacity", "40MiB"]);
    assert!(capped.contains("`memory.capacity` is 40.00 MiB, and the device has "), "{capped}");
}
