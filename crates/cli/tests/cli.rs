//! The program as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use common::{json, refused, text};

/// A run of seconds: a small model, few steps.
const SMALL: [&str; 10] = [
    "--set",
    "sr.channels=4",
    "--set",
    "sr.blocks=1",
    "--set",
    "train.validate_every=10",
    "--set",
    "train.checkpoint_every=5",
    "--seed",
    "1",
];

fn plimsoll(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args);
    command
}

fn train(out: &Path, args: &[&str]) -> Output {
    let mut command = plimsoll(&["train"]);
    command.args(SMALL).args(args).arg("--out").arg(out).output().unwrap()
}

#[test]
fn a_run_leaves_everything_behind_and_its_log_replays() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = train(&out, &["--steps", "20"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in [
        "config.toml",
        "events.jsonl",
        "batch_metrics.json",
        "epoch_metrics.json",
        "training_report.json",
        "training_report.md",
        "training_report.html",
        "step_curves.svg",
        "step_curves.png",
        "training_curves.svg",
        "training_curves.png",
        "memory_timeline.svg",
        "memory_timeline.png",
        "overhead.json",
        "facts.json",
        "processes.jsonl",
        "checkpoints/best.json",
        "checkpoints/step-00000020/model.bpk",
        "checkpoints/step-00000020/weights.safetensors",
    ] {
        assert!(out.join(name).is_file(), "{name} is missing");
    }
    let report = json(&out.join("training_report.json"));
    assert_eq!((&report["steps"], &report["job"]), (&Value::from(20), &Value::from("sr")));
    assert!(report["steady_budget_share"].as_f64().unwrap() > 0.0, "{report}");
    assert!(text(&output.stdout).contains("run directory: "), "{}", text(&output.stdout));
    let replay = plimsoll(&["replay"]).arg(out.join("events.jsonl")).output().unwrap();
    assert!(replay.status.success(), "{}", text(&replay.stdout));
}

#[test]
fn a_validation_in_small_tiles_measures_the_same_image() {
    let folder = tempfile::tempdir().unwrap();
    let metric = |tile: &str| {
        let out = folder.path().join(tile);
        // Four blocks see further than a tile of 8 is wide, so that the border of an image has tiles of its own.
        let tile = format!("sr.validation_tile={tile}");
        // So many tiles would not all be measured.
        let all = "train.validation_share=1.0";
        let args = ["--steps", "1", "--set", &tile, "--set", "sr.blocks=4", "--set", all];
        let output = train(&out, &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        json(&out.join("training_report.json"))["baseline"].as_f64().unwrap()
    };
    assert_eq!(metric("8").to_bits(), metric("64").to_bits());
}

#[test]
fn a_replay_of_a_log_that_was_tampered_with_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    assert!(train(&out, &["--steps", "12"]).status.success());
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let (from, to) = ("\"why\":\"certified\",\"upper\":", "\"why\":\"certified\",\"upper\":1");
    assert!(log.contains(from), "the run made no decision to tamper with");
    let tampered = folder.path().join("tampered.jsonl");
    fs::write(&tampered, log.replacen(from, to, 1)).unwrap();
    let replay = plimsoll(&["replay"]).arg(&tampered).output().unwrap();
    assert_eq!(replay.status.code(), Some(1));
    assert!(text(&replay.stdout).contains("1 differ"), "{}", text(&replay.stdout));
}

#[test]
fn a_short_run_beats_bicubic_on_images_that_it_has_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let args = ["--steps", "150", "--set", "train.validate_every=150", "--set", "sr.channels=8"];
    let output = train(&out, &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&out.join("training_report.json"));
    let (metric, baseline) = (report["metric"].as_f64().unwrap(), report["baseline"].as_f64().unwrap());
    assert!(baseline + 0.5 < metric, "{metric} dB, bicubic {baseline} dB");
}

#[test]
fn the_recorded_logs_replay_to_the_same_decisions() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/logs");
    let mut paths: Vec<_> = fs::read_dir(logs).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let output = plimsoll(&["replay"]).args(&paths).output().unwrap();
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert_eq!(stdout.matches("decisions, 0 differ").count(), 4, "{stdout}");
}

#[test]
fn a_run_directory_is_refused_resumed_or_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    assert!(train(&out, &["--steps", "6"]).status.success());
    refused(&train(&out, &["--steps", "6"]), &["exists already", "--resume", "--overwrite"]);
    let resumed = train(&out, &["--steps", "12", "--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(json(&out.join("training_report.json"))["steps"], 12);
    refused(&train(&out, &["--resume", "--set", "sr.channels=8"]), &["4 channels", "8 channels"]);
    refused(&train(&out, &["--resume", "--set", "policy.kind=fixed"]), &["policy", "start a new run"]);
    let files = || ["checkpoints/best.json", "config.toml", "events.jsonl"].map(|it| fs::read(out.join(it)).unwrap());
    let before = files();
    refused(&train(&out, &["--steps", "5", "--resume"]), &["`train.steps` is 5, and 12 steps are done"]);
    assert!(before == files(), "a refused run changed what another has left");
    let unharmed = train(&out, &["--steps", "13", "--resume"]);
    assert!(unharmed.status.success(), "{}", text(&unharmed.stderr));
    refused(&train(&out, &["--overwrite", "--capacity", "1MiB"]), &["in use before the first step"]);
    assert_eq!(json(&out.join("training_report.json"))["steps"], 13, "a refused run destroyed another");
    assert!(train(&out, &["--steps", "6", "--overwrite"]).status.success());
    assert_eq!(json(&out.join("training_report.json"))["steps"], 6);
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_run_with_a_checkpoint_and_says_how_to_go_on() {
    use std::process::Stdio;

    use common::Child;

    use std::io::{BufRead, BufReader};

    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("it's a $run");
    let mut command = plimsoll(&["train", "--device", "flex"]);
    command.args(SMALL).args(["--steps", "100000", "--out"]).arg(&out);
    let mut child = Child::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = stderr.lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("step 10: held out: PSNR")).unwrap().unwrap();
    child.signal("INT");
    lines.for_each(drop);
    let output = child.output();
    assert_eq!(output.status.code(), Some(130));
    let stdout = text(&output.stdout);
    let hint = stdout.lines().find_map(|it| it.strip_prefix("interrupted after ")).unwrap();
    let (_, hint) = hint.split_once("go on with: ").unwrap();
    assert!(!hint.contains("cargo"), "{hint}");
    let steps = json(&out.join("training_report.json"))["steps"].as_u64().unwrap();
    assert!(out.join(format!("checkpoints/step-{steps:08}/state.json")).is_file());
    // As it is pasted into a shell, but for an end that comes soon.
    let pasted = Command::new("sh").args(["-c", &format!("{hint} --steps {}", steps + 1)]).output().unwrap();
    assert!(pasted.status.success(), "{hint}: {}", text(&pasted.stderr));
    assert_eq!(json(&out.join("training_report.json"))["steps"], steps + 1);
}

#[test]
fn bad_input_is_refused_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let check = |args: &[&str], parts: &[&str]| {
        refused(&train(&out, args), parts);
        assert!(!out.exists(), "{args:?} left {} behind", out.display());
    };
    check(&["--data", "/no/such/folder"], &["/no/such/folder", "no such folder"]);
    check(&["--set", "memory.target=1.7"], &["memory.target", "1.7", "above 0 and at most 1"]);
    check(&["--set", "memory.taget=0.7"], &["memory.taget", "did you mean `memory.target`?"]);
    let crossed = ["--set", "batch.patch_min=48", "--set", "batch.patch_max=32"];
    check(&crossed, &["`batch.patch_min` is 48", "`batch.patch_max` (32)"]);
    check(&["--set", "batch.patch_min=9"], &["`batch.patch_min` is 9", "any multiple of `batch.patch_multiple` (4)"]);
    check(&["--set", "batch.patch_multiple=1000"], &["`batch.patch_multiple` where it is larger, to at most 81"]);
    let weights = ["--job", "multitask", "--set", "tasks.weights=1, 1, 2"];
    check(&weights, &["`tasks.weights` is \"1, 1, 2\"", "`tasks.balance` is \"gradnorm\", which finds them"]);
    check(&["--set", "batch.batch_max=64"], &["`batch.batch_max` is 64", "effective_batch_size"]);
    check(&["--capacity", "100 KiB"], &["00_leaves.png", "to decode its 174 × 162 pixels", "a capacity of"]);
    check(&["--capacity", "2500 KiB"], &["2.44 MiB", "a capacity "]);
    // On one thread, whatever the processor has, since each keeps memory of its own.
    let wide = ["--deterministic", "--set", "batch.patch_min=64", "--set", "batch.patch_max=64"];
    let whole = [&wide[..], &["--capacity", "16 MiB", "--set", "memory.gradient_checkpointing=off"]].concat();
    check(&whole, &["needs", "16.00 MiB", "a capacity of"]);
    check(&["--capacity=-1"], &["memory.capacity", "`-1`"]);
    check(&["--set", "batch.patch_min=0.5"], &["batch.patch_min", "`0.5`", "preset"]);
    check(&["--set", "data.workers=100000"], &["data.workers", "100000", "64"]);
    check(&["--capacity", "900 TiB"], &["it has only"]);
    check(&["--device", "metal"], &["`metal` is no device", "vulkan"]);
    check(&["--job", "poetry"], &["poetry", "sr"]);
    check(&["--resume"], &["no run to resume"]);
    check(&["--config", "/no/such.toml"], &["/no/such.toml", "no such file"]);
    if !cfg!(feature = "cuda") {
        check(&["--device", "cuda"], &["cuda:0", "--features cuda"]);
    }
}

#[test]
fn a_run_in_its_own_data_folder_reads_nothing_that_it_has_written() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..6_u8 {
        image::RgbImage::from_fn(96, 96, |x, y| image::Rgb([(x + y).to_le_bytes()[0], n, 0]))
            .save(folder.path().join(format!("{n}.png")))
            .unwrap();
    }
    let run = |args: &[&str]| {
        let small = ["--data", ".", "--set", "sr.channels=4", "--set", "sr.blocks=1"];
        let output = plimsoll(&[args, &small].concat()).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    run(&["plan"]);
    for args in [&["train", "--steps", "2"][..], &["train", "--steps", "3", "--resume"]] {
        let said = run(args);
        assert!(said.contains("4 images to train on, 1 to validate on, 1 to test on"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_to_standard_output_is_an_error_and_no_panic() {
    for (path, code) in [("/dev/full", 1), ("/dev/null", 0)] {
        let full = fs::File::options().write(true).open(path).unwrap();
        let output = plimsoll(&["config"]).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), said.contains("failed to write to standard output")),
            (Some(code), code == 1)
        );
    }
    // Whoever reads has enough at once: the plan is written all the same.
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json");
    let mut command = plimsoll(&["plan", "--set", "sr.channels=4", "--set", "sr.blocks=1", "--out"]);
    let mut child = command.arg(&plan).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success() && plan.is_file());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let unheard = plimsoll(&["probe"]).stderr(full).output().unwrap();
    assert!(unheard.status.success() && !unheard.stdout.is_empty());
}

#[test]
fn a_configuration_file_with_a_mistake_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let shown = path.display().to_string();
    fs::write(&path, "[memory]\ntarget = \n").unwrap();
    refused(&train(&folder.path().join("run"), &["--config", &shown]), &["mine.toml", "line 2"]);
    fs::write(&path, "[memory]\ncapcity = \"1 GiB\"\n").unwrap();
    refused(
        &train(&folder.path().join("run"), &["--config", &shown]),
        &["mine.toml", "did you mean `memory.capacity`?"],
    );
}

#[test]
fn an_unwritable_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(&train(&file.join("run"), &[]), &["create", "file/run"]);
}

#[test]
fn the_default_configuration_is_printed_with_its_comments() {
    let output = plimsoll(&["config"]).output().unwrap();
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn the_probe_says_what_it_sees_and_why_it_does_not() {
    let output = plimsoll(&["probe"]).output().unwrap();
    let stdout = text(&output.stdout);
    assert!(output.status.success() && stdout.lines().any(|it| it.starts_with("flex: ")), "{stdout}");
    assert!(stdout.lines().any(|it| it.starts_with("cuda:0: ")), "{stdout}");
}
