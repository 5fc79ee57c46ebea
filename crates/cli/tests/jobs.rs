//! The jobs whose samples have lengths, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};

fn plimsoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).output().unwrap()
}

fn train(job: &str, out: &Path, args: &[&str]) -> Output {
    let out = out.display().to_string();
    let small = ["train", "--job", job, "--out", &out, "--set", "train.validate_every=6", "--seed", "1"];
    plimsoll(&[&small[..], args].concat())
}

#[track_caller]
fn trained(job: &str, out: &Path, args: &[&str]) -> String {
    let output = train(job, out, args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn each_job_trains_on_the_data_that_comes_along_and_its_log_replays() {
    let folder = tempfile::tempdir().unwrap();
    for (job, metric) in [("sequence", "accuracy"), ("multitask", "loss over baseline")] {
        let out = folder.path().join(job);
        let shown = trained(job, &out, &["--steps", "6"]);
        assert!(shown.contains(metric), "{shown}");
        let replayed = plimsoll(&["replay", &out.join("events.jsonl").display().to_string()]);
        assert!(replayed.status.success(), "{}", text(&replayed.stdout));
        assert_eq!(json(&out.join("training_report.json"))["oom_recoveries"], 0, "{job}");
    }
    assert!(folder.path().join("multitask/task_comparison.png").is_file());
    assert!(!folder.path().join("sequence/task_comparison.png").is_file());
}

#[test]
fn a_language_model_trains_and_writes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let small = ["text.width=16", "text.layers=1", "text.vocabulary=300", "batch.effective_batch_size=1024"];
    let sets: Vec<_> = small.iter().flat_map(|it| ["--set", it]).chain(["--steps", "6"]).collect();
    let shown = trained("text", &out, &sets);
    assert!(shown.contains("nats/token"), "{shown}");
    let run = out.display().to_string();
    let prompts = folder.path().join("prompts.txt");
    fs::write(&prompts, "The harbour\nA boat\n").unwrap();
    let file = prompts.display().to_string();
    let args = ["generate", &run, "--prompt", "In the evening", "--prompts", &file, "--max-tokens", "5"];
    let (first, again) = (plimsoll(&args), plimsoll(&args));
    assert!(first.status.success(), "{}", text(&first.stderr));
    let written = text(&first.stdout);
    let places: Vec<_> = ["In the evening", "The harbour", "A boat"].map(|it| written.find(it).unwrap()).into();
    assert!(places.is_sorted(), "{written}");
    assert_eq!(written, text(&again.stdout));
    assert!(text(&first.stderr).contains("batch       3 found"), "{}", text(&first.stderr));
    // One at a time, the texts are the same.
    let alone = plimsoll(&[&args[..], &["--batch-size", "1"]].concat());
    assert_eq!(written, text(&alone.stdout));
    refused(&plimsoll(&["generate", &run]), &["--prompt"]);
    refused(&plimsoll(&["generate", &folder.path().display().to_string(), "--prompt", "x"]), &["config.toml"]);
}

#[test]
fn a_run_of_tokens_resumes_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sets = ["--set", "batch.effective_unit=tokens", "--set", "batch.effective_batch_size=300"];
    trained("sequence", &out, &[&sets[..], &["--steps", "6", "--set", "sequence.stream=false"]].concat());
    trained("sequence", &out, &["--resume", "--steps", "12"]);
    let events = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let steps: Vec<_> = events.lines().filter(|it| it.contains(r#""event":"step_done""#)).collect();
    assert_eq!(steps.len(), 12);
}

#[test]
fn data_and_settings_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("run"), folder.path().join("data"));
    fs::create_dir(&data).unwrap();
    let from = |job: &str, args: &[&str]| train(job, &out, &[&["--data", &data.display().to_string()], args].concat());
    refused(&from("sequence", &[]), &["labels.csv"]);
    fs::write(data.join("labels.csv"), "path,label\none.wav,a\n").unwrap();
    refused(&from("sequence", &[]), &["one.wav"]);
    refused(&from("multitask", &[]), &["samples.jsonl"]);
    fs::write(data.join("samples.jsonl"), "{\"task\": \"single\"\n").unwrap();
    refused(&from("multitask", &[]), &["samples.jsonl", "line 1"]);
    fs::write(data.join("bad.txt"), b"caf\xe9 au lait").unwrap();
    refused(&from("text", &[]), &["bad.txt", "UTF-8"]);
    let built_in = |job: &str, set: &str| train(job, &out, &["--set", set]);
    refused(&built_in("multitask", "tasks.shares=\"0.5, 0.2, 0.1\""), &["tasks.shares", "0.8", "normalize_shares"]);
    refused(&built_in("multitask", "tasks.shares=\"half\""), &["tasks.shares", "half"]);
    refused(&built_in("sequence", "policy.kind=stepwise"), &["policy.kind", "certified"]);
    refused(&built_in("sequence", "batch.batch_max=33"), &["batch.batch_max", "33", "32"]);
    assert!(!out.exists(), "a refused run left something behind");
}
