//! What the first lines of a run's report answer, as a user sees them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: [&str; 6] = [
    "text.width=16",
    "text.layers=1",
    "text.heads=1",
    "text.vocabulary=300",
    "batch.effective_batch_size=1024",
    "train.validate_every=100",
];

fn report_of(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("training_report.json")).unwrap()).unwrap()
}

#[track_caller]
fn trained(out: &Path, args: &[&str]) -> String {
    trained_on("text", &SMALL, out, args)
}

/// Trains a job, and returns what was said at the end.
#[track_caller]
fn trained_on(job: &str, sets: &[&str], out: &Path, args: &[&str]) -> String {
    let output = train(job, sets, out, args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn train(job: &str, sets: &[&str], out: &Path, args: &[&str]) -> Output {
    let sets = sets.iter().flat_map(|it| ["--set", it]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--job", job, "--no-supervise", "--seed", "1", "--out"]).arg(out).args(sets).args(args);
    command.output().unwrap()
}

#[test]
fn a_run_on_far_too_much_memory_names_its_limit_in_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let buffer = "data.buffer_limit=64 MiB";
    let shown = trained(&out, &["--capacity", "8GiB", "--steps", "40", "--set", buffer]);
    let first = shown.lines().next().unwrap();
    for part in ["Memory was not the limit", " % of the budget of 7.20 GiB", "the effective batch of 1024 tokens"] {
        assert!(first.contains(part), "{first}");
    }
    let report = fs::read_to_string(out.join("training_report.md")).unwrap();
    assert_eq!(report.lines().nth(2), Some(first), "{report}");
    assert_eq!(report_of(&out)["limit"], "batches_per_step");
    for row in ["| last validation | bits per byte", "| last checkpoint | checkpoints/step-00000040 |"] {
        assert!(report.contains(row), "{report}");
    }
}

#[test]
fn the_metric_is_told_from_the_loss_and_a_length_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let padded = ["--set", "batch.pack=false", "--set", "data.buffer_limit=64 MiB"];
    trained(&out, &[&["--capacity", "512MiB", "--steps", "12"], &padded[..]].concat());
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    assert!(log.lines().next().unwrap().contains(r#""unit_of_length":"tokens""#), "{log}");
    let report = fs::read_to_string(out.join("training_report.md")).unwrap();
    assert!(report.contains("micro_batch_size by length in tokens"), "{report}");
}

#[test]
fn the_first_line_names_who_chose_the_sizes_and_what_ran() {
    let folder = tempfile::tempdir().unwrap();
    let sets = ["sr.channels=4", "sr.blocks=1", "train.validate_every=100"];
    let first = |name: &str, args: &[&str], limit: &str| {
        let out = folder.path().join(name);
        let shown = trained_on("sr", &sets, &out, &[&["--steps", "12"], args].concat());
        assert_eq!(report_of(&out)["limit"], limit, "{shown}");
        shown.lines().next().unwrap().to_owned()
    };
    let check = |said: &str, parts: &[&str]| parts.iter().for_each(|it| assert!(said.contains(it), "{said}"));
    let levers = ["`batch.patch_max = 32` (the preset's) and the effective batch of 32 samples"];
    check(&first("roomy", &[], "effective_batch"), &levers);
    // The least capacity that trains at all: what threads keep for their products is most of it.
    let fixed = ["--steps", "12", "--overwrite", "--set", "policy.kind=fixed", "--set", "sr.validation_tile=16"];
    let out = folder.path().join("fixed");
    let tight = (16..1024).map(|quarters| format!("{}KiB", quarters * 256)).find_map(|capacity| {
        let output = train("sr", &sets, &out, &[&fixed[..], &["--capacity", &capacity]].concat());
        output.status.success().then(|| text(&output.stdout))
    });
    assert_eq!(report_of(&out)["limit"], "memory", "{tight:?}");
    let asked = ["Memory was the limit", "`policy.kind = \"fixed\"` keeps did not fit", "micro-batches of "];
    check(tight.unwrap().lines().next().unwrap(), &asked);
    let room = ["batch.effective_batch_size=128", "batch.batch_max=16", "data.buffer_limit=64 MiB"];
    let room = room.iter().flat_map(|it| ["--set", it]).chain(["--capacity", "16GiB"]).collect::<Vec<_>>();
    check(&first("images", &room, "bounds"), &["the smallest image (patch 72) and `batch.batch_max = 16`."]);
    let given = first("given", &["--set", "batch.batch_size=8"], "fixed");
    check(&given, &["(the preset's) and `batch.batch_size = 8`. A larger `batch.batch_size` takes more memory for"]);
}
