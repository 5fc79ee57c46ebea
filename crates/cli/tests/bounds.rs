//! What comes after the first steps is bounded before it runs: validation and generation.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};
use serde_json::Value;

fn plimsoll(args: &[&str], sets: &[&str]) -> Output {
    let sets = sets.iter().flat_map(|it| ["--set", it]);
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).args(sets).output().unwrap()
}

/// Returns capacities from 4 MiB to 1 GiB, each a quarter above the one before: what fits where depends on the machine.
fn capacities() -> impl Iterator<Item = String> {
    std::iter::successors(Some(4096_u32), |it| Some(it + it / 4))
        .take_while(|it| *it <= 1 << 20)
        .map(|it| format!("{it}KiB"))
}

#[test]
fn a_capacity_that_trains_but_cannot_validate_says_so_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let run = out.display().to_string();
    let train = |capacity: &str, tile: &str| {
        let args = ["train", "--no-supervise", "--overwrite", "--steps", "2", "--capacity", capacity, "--out", &run];
        let small = ["sr.channels=32", "sr.blocks=1", "batch.patch_min=16", "batch.patch_max=16", "batch.batch_max=2"];
        plimsoll(&args, &[&small[..], &["batch.effective_batch_size=2", tile]].concat())
    };
    let mut trains = None;
    for capacity in capacities() {
        let output = train(&capacity, "sr.validation_tile=160");
        if output.status.success() {
            break;
        }
        refused(&output, &[]);
        if text(&output.stderr).contains("failed to validate: one sample of edge ") {
            refused(&output, &["is not certain to fit, and was not run", "`sr.validation_tile`"]);
            assert!(!out.join("events.jsonl").exists(), "something was trained under {capacity}");
            trains = Some(capacity);
        }
    }
    let capacity = trains.expect("every capacity that trains can validate tiles of a hundred times the area");
    let output = train(&capacity, "sr.validation_tile=16");
    assert!(output.status.success(), "{capacity}: {}", text(&output.stderr));
    assert_eq!(json(&out.join("training_report.json"))["steps"], 2);
}

#[test]
fn a_smallest_step_that_does_not_fit_is_tried_with_gradient_checkpointing_before_the_run_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    // Weights take as much as all else, and a step takes them several times: so there is a capacity that holds them and no step.
    let large = ["text.width=256", "text.layers=2", "text.vocabulary=300", "batch.effective_batch_size=1024"];
    let train = |capacity: &str, checkpointing: &str| {
        let args = ["train", "--job", "text", "--no-supervise", "--overwrite", "--steps", "1", "--capacity", capacity];
        let checkpointing = format!("memory.gradient_checkpointing={checkpointing}");
        plimsoll(&[&args[..], &["--out", &run]].concat(), &[&large[..], &[&checkpointing]].concat())
    };
    let too_small = capacities().find(|capacity| {
        let output = train(capacity, "auto");
        refused(&output, &[]);
        text(&output.stderr).contains("the smallest step")
    });
    let capacity = too_small.expect("a capacity that holds the weights, and not the smallest step");
    let tried = "gradient checkpointing was tried; any of these would help: a capacity of";
    refused(&train(&capacity, "auto"), &["the smallest step", tried]);
    let output = train(&capacity, "off");
    refused(&output, &["the smallest step", "`memory.gradient_checkpointing = \"on\"`"]);
    assert!(!text(&output.stderr).contains("was tried"), "{}", text(&output.stderr));
}

#[test]
fn texts_are_written_as_many_at_a_time_as_are_certain_to_fit() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let small = ["text.width=16", "text.layers=1", "text.vocabulary=300", "batch.effective_batch_size=1024"];
    let trained = plimsoll(&["train", "--job", "text", "--steps", "2", "--no-supervise", "--out", &run], &small);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let mut prompts = String::new();
    (0..32).for_each(|at| writeln!(prompts, "In the evening of day {at}").unwrap());
    let file = folder.path().join("prompts.txt");
    fs::write(&file, prompts).unwrap();
    let file = file.display().to_string();
    let write = |capacity: &str| {
        let all = ["generate", &run, "--prompts", &file, "--max-tokens", "120", "--batch-size", "32"];
        plimsoll(&[&all[..], &["--capacity", capacity]].concat(), &[])
    };
    let expected = write("4GiB");
    assert!(expected.status.success(), "{}", text(&expected.stderr));
    let mut n_climbed = 0;
    for capacity in capacities() {
        let output = write(&capacity);
        let stderr = text(&output.stderr);
        if !output.status.success() {
            refused(&output, &[]);
            assert_eq!(n_climbed, 0, "{capacity}: {stderr}");
            continue;
        }
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{capacity}: {stderr}");
        if !stderr.contains("32 texts at a time are not certain to fit") {
            break;
        }
        n_climbed += 1;
    }
    assert!(1 < n_climbed, "no capacity has room for some texts at a time and none for all");
}

/// Returns how many samples each part of each step had.
fn parts(run: &Path) -> Vec<Vec<usize>> {
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let events = log.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let steps = events.filter(|it| it["event"] == "step_done");
    let n_samples = |part: &Value| part["ids"].as_array().unwrap().len();
    steps.map(|it| it["micro_batches"].as_array().unwrap().iter().map(n_samples).collect()).collect()
}

#[test]
fn a_run_takes_the_micro_batch_that_was_found_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (run, found) = (folder.path().join("run"), folder.path().join("found.json"));
    // Validating takes less than a step.
    let small = ["sr.channels=4", "sr.blocks=1", "sr.validation_tile=16"];
    let mut n_found = 0;
    for capacity in capacities() {
        let search = plimsoll(&["find", "--capacity", &capacity, "--out", &found.display().to_string()], &small);
        if !search.status.success() {
            refused(&search, &[]);
            assert_eq!(n_found, 0, "{capacity} has no room where less had");
            continue;
        }
        let batch = json(&found)["answers"][0]["batch"].as_u64().unwrap();
        n_found += 1;
        assert!(batch < 32, "no capacity had room for less than a step and was taken: {n_found} were searched");
        let (run, of_found) = (run.display().to_string(), format!("batch.batch_size={batch}"));
        let train = ["train", "--no-supervise", "--overwrite", "--steps", "3", "--capacity", &capacity, "--out", &run];
        let train = plimsoll(&train, &[&small[..], &[&of_found]].concat());
        assert!(train.status.success(), "{batch} under {capacity}: {}", text(&train.stderr));
        // Where there is little more room than for one sample, what was found is not certain to fit by what a run may try.
        let n = usize::try_from(batch).unwrap();
        if 1 < n && parts(Path::new(&run)).iter().all(|it| it[0] == n) {
            return;
        }
    }
    unreachable!("the largest has room for a step");
}
