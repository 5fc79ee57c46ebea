//! The jobs whose samples have lengths, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::f32::consts::TAU;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{json, refused, text};
use plimsoll_train::Controller;
use plimsoll_types::{Event, MicroBatch, StepDone};
use plimsoll_workloads::Shares;
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig};

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
fn groups_stay_together_and_what_makes_no_whole_step_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sets = ["data.stream=false", "data.together=speaker", "batch.effective_batch_size=16", "batch.drop_last=true"];
    let args: Vec<_> = ["--steps", "8"].into_iter().chain(sets.iter().flat_map(|it| ["--set", it])).collect();
    let output = train("sequence", &out, &args);
    let told = text(&output.stderr) + &text(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("16 samples per step on average, and less than "), "{told}");
    assert!(told.contains("; 6 groups of up to ") && told.contains(" to train on stay together"), "{told}");
    let recordings = Recordings::read(&RecordingsConfig {
        shares: Shares { validation: 0.2, test: 0.2 },
        together_column: Some("speaker".to_owned()),
        ..RecordingsConfig::new(plimsoll_fixtures::dir().join("sequence"))
    });
    let group_of: Vec<u32> = recordings.unwrap().train.iter().map(|it| it.together).collect();
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let (mut n_steps, mut dropped) = (0, 0);
    for event in log.lines().map(|it| serde_json::from_str(it).unwrap()) {
        match event {
            Event::StepDone(step) => {
                let ids: BTreeSet<u64> = step.micro_batches.into_iter().flat_map(|it| it.ids).collect();
                let of = |id: &u64| group_of[usize::try_from(*id).unwrap()];
                let groups: BTreeSet<_> = ids.iter().map(of).collect();
                assert_eq!(ids.len(), group_of.iter().filter(|it| groups.contains(it)).count(), "{ids:?}");
                n_steps += 1;
            }
            Event::EpochDone(it) => dropped += it.dropped,
            _ => {}
        }
    }
    assert!(n_steps == 8 && 0 < dropped, "{n_steps} steps, {dropped} samples dropped");
    assert_eq!(json(&out.join("training_report.json"))["dropped"]["samples"], dropped);
    let report = fs::read_to_string(out.join("training_report.md")).unwrap();
    assert!(report.contains(&format!("| samples dropped | {dropped}: ")), "{report}");
    let of_text = ["--set", "data.together=document", "--set", "batch.effective_batch_size=64"];
    let allowed = "`data.together` is \"document\", allowed is what has groups of up to `batch.effective_batch_size` (64) \
                   tokens, and that of the section that begins ";
    refused(&train("text", &folder.path().join("none"), &of_text), &[allowed]);
}

/// Steps of a run whose peaks are held against their bounds.
const HELD: usize = 40;

/// Small layers, so that what a kernel keeps beside its tensors is a large share of a step.
const SR: [&str; 7] = [
    "sr.channels=4",
    "sr.blocks=1",
    "sr.validation_tile=32",
    "batch.effective_batch_size=16",
    "batch.patch_min=16",
    "batch.patch_max=32",
    "batch.batch_max=16",
];
const SEQUENCE: [&str; 4] =
    ["sequence.heads=1", "sequence.head_width=8", "sequence.blocks=1", "batch.effective_batch_size=16"];
const MULTITASK: [&str; 3] = ["multitask.channels=4", "multitask.features=8", "multitask.image_size=16"];
const TEXT: [&str; 5] =
    ["text.width=16", "text.layers=1", "text.heads=1", "text.vocabulary=300", "batch.effective_batch_size=1024"];

/// Runs a job, and holds the peak of every step and of every part against the bound that was known before it.
#[track_caller]
fn check_peaks(job: &str, sets: &[&str], data: Option<&Path>) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let data = data.map(|it| it.display().to_string());
    let steps = HELD.to_string();
    let mut args = vec!["--steps", &steps];
    args.extend(sets.iter().flat_map(|it| ["--set", it]));
    args.extend(data.iter().flat_map(|it| ["--data", it]));
    trained(job, &out, &args);
    let log = fs::read_to_string(out.join("events.jsonl")).unwrap();
    let events: Vec<Event> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let Event::RunStarted(head) = &events[0] else { panic!("{job}: no head") };
    let mut controller = Controller::try_new(serde_json::from_str(&head.controller).unwrap()).unwrap();
    let (mut n_steps, mut n_parts) = (0, 0);
    for event in &events {
        assert!(!matches!(event, Event::BoundExceeded(_)), "{job}: {event:?}");
        if let Event::StepDone(done) = event {
            let upper = done.upper.unwrap_or_else(|| panic!("{job}: step {} has no bound", done.step));
            assert!(done.peak <= upper, "{job}: step {}: {} is above {upper}", done.step, done.peak);
            n_parts += check_parts(job, done, &controller);
            n_steps += 1;
        }
        controller.learn(event).unwrap();
        controller.decide(event);
    }
    assert_eq!(n_steps, HELD, "{job}");
    assert!(HELD <= n_parts, "{job}: {n_parts} parts have been measured");
}

/// Holds each part that was measured by itself against its own bound, and returns how many there are; the first step is
/// bounded with what it leaves behind, of which its log says nothing.
#[track_caller]
fn check_parts(job: &str, done: &StepDone, controller: &Controller) -> usize {
    let whole = (done.micro_batches.len() == 1).then_some((done.resident, done.peak));
    let measured = |it: &MicroBatch| it.resident.zip(it.peak).or(whole).map(|(found, peak)| (it.shape(), found, peak));
    let parts: Vec<_> = done.micro_batches.iter().filter_map(measured).collect();
    for (shape, found, peak) in parts.iter().filter(|_| 0 < done.step) {
        let upper = controller.predict(*shape, *found).unwrap().upper;
        assert!(*peak <= upper, "{job}: step {}, {shape} on top of {found}: {peak} is above {upper}", done.step);
    }
    parts.len()
}

#[test]
fn no_peak_of_any_job_is_above_its_bound() {
    let streamed = [&MULTITASK[..], &["data.stream=true"]].concat();
    let of_multitask = [("multitask", &MULTITASK[..]), ("multitask", &streamed[..])];
    for (job, sets) in [("sr", &SR[..]), ("sequence", &SEQUENCE), ("text", &TEXT)].into_iter().chain(of_multitask) {
        check_peaks(job, sets, None);
    }
}

/// Writes samples of two subjects, whose images have sides of 6 to 40 pixels.
fn draw_images(folder: &Path) {
    let mut list = String::new();
    for (subject, shade) in [("ash", 60_u8), ("oak", 200)] {
        fs::create_dir(folder.join(subject)).unwrap();
        for at in 0..14_u32 {
            let (width, height) = (6 + at * 37 % 34, 6 + at * 23 % 31);
            let pixel = |x: u32, y: u32| image::Rgb([shade, (x * 9).to_le_bytes()[0], (y * 7).to_le_bytes()[0]]);
            image::RgbImage::from_fn(width, height, pixel).save(folder.join(format!("{subject}/{at}.png"))).unwrap();
            let images: Vec<_> =
                (at..14).take(1 + at as usize % 3).map(|it| format!("\"{subject}/{it}.png\"")).collect();
            let (images, words) = (images.join(","), "tree ".repeat(1 + at as usize % 5));
            writeln!(list, r#"{{"task":"which","subjects":["{subject}"],"images":[{images}],"text":"{words}"}}"#)
                .unwrap();
        }
    }
    fs::write(folder.join("samples.jsonl"), list).unwrap();
}

#[test]
fn no_peak_on_images_of_their_own_sizes_is_above_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    draw_images(folder.path());
    for stream in ["data.stream=false", "data.stream=true"] {
        let own =
            ["multitask.channels=4", "multitask.features=8", "multitask.image_size=32", "multitask.own_sizes=true"];
        check_peaks("multitask", &[&own[..], &[stream]].concat(), Some(folder.path()));
    }
}

#[test]
fn folders_of_documents_are_mixed_in_the_shares_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (folder.path().join("data"), folder.path().join("run"));
    for (source, n) in [("notes", 4_u32), ("tales", 20)] {
        fs::create_dir_all(data.join(source)).unwrap();
        for at in 0..n {
            let text = format!("In {source} {at} the tide comes in, and it goes out again.\n\n").repeat(6);
            fs::write(data.join(source).join(format!("{at}.txt")), text).unwrap();
        }
    }
    let of_data = ["--data", &data.display().to_string(), "--set", "data.source_folders=true"].map(str::to_owned);
    let small = ["text.width=16", "text.layers=1", "text.vocabulary=300", "batch.effective_batch_size=512"];
    let sets = small.iter().flat_map(|it| ["--set", *it]);
    let args = of_data.iter().map(String::as_str).chain(sets).collect::<Vec<_>>();
    let with = |more: &[&'static str]| [&args[..], more].concat();
    refused(&train("text", &out, &with(&["--set", "tasks.shares=books=1"])), &["for each of 2 sources (notes, tales)"]);
    let one =
        ["--data", &data.join("notes").display().to_string(), "--set", "data.source_folders=true"].map(str::to_owned);
    let one: Vec<_> = one.iter().map(String::as_str).chain(["--set", "tasks.temperature=2"]).collect();
    refused(&train("text", &out, &one), &["`tasks.temperature` is 2, allowed is 1", "and there is one"]);
    let mixed = ["--steps", "12", "--set", "tasks.shares=notes=0.5, tales=0.5", "--set", "tasks.ends=last"];
    for packed in ["batch.pack=false", "batch.pack=true"] {
        let out = out.join(packed);
        let output = train("text", &out, &with(&[&mixed[..], &["--set", packed]].concat()));
        let told = text(&output.stderr);
        assert!(output.status.success() && told.contains("; sources: notes "), "{told}");
        let report = json(&out.join("training_report.json"));
        let share = |at: usize| report["sources"][at]["share"].as_f64().unwrap();
        // Of the data they are a sixth and five.
        let is_half = (0.4..=0.6).contains(&share(0)) && (share(0) + share(1) - 1.0).abs() < 1e-9;
        assert!(is_half, "{packed}: {}", report["sources"]);
    }
}

#[test]
fn sections_that_overlap_train_packed_and_padded_to_the_same_loss() {
    let folder = tempfile::tempdir().unwrap();
    let set = ["text.width=16", "text.layers=1", "text.vocabulary=300", "text.longest=96", "text.overlap=32"];
    let sets: Vec<_> = set.iter().flat_map(|it| ["--set", it]).chain(["--steps", "30"]).collect();
    let loss = |packed: &str| {
        let out = folder.path().join(packed);
        trained("text", &out, &[&sets[..], &["--set", packed]].concat());
        json(&out.join("training_report.json"))["metric"].as_f64().unwrap()
    };
    let [padded, packed] = ["batch.pack=false", "batch.pack=true"].map(loss);
    assert!((packed / padded - 1.0).abs() < 0.05, "{packed} {padded}");
}

/// Writes drawings of so many lines to and fro, and their labels; each line is about as many frames.
fn draw_strokes(folder: &Path, n_lines: &[u16]) {
    let mut labels = "path,label\n".to_owned();
    for (at, n) in n_lines.iter().enumerate() {
        let mut trace = "START\n".to_owned();
        for line in 0..*n {
            let (y, turn) = (f32::from(line % 15) * 4.0, TAU * f32::from(line) / 7.0);
            for (x, t) in [(10.0 + turn.sin(), 0), (100.0 + turn.cos(), 700)] {
                writeln!(trace, "{x},{y},{}", 1000 * u32::from(line) + t).unwrap();
            }
        }
        fs::write(folder.join(format!("{at}.txt")), trace + "BREAK\n").unwrap();
        writeln!(labels, "{at}.txt,{}", ["few", "many"][usize::from(5 < *n)]).unwrap();
    }
    fs::write(folder.join("labels.csv"), labels).unwrap();
}

#[test]
fn no_peak_on_strokes_of_very_different_lengths_is_above_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    // From 24 frames to nearly a thousand, and few of the long ones.
    let n_lines: Vec<_> = [1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 13, 16, 20].into_iter().cycle().take(60).collect();
    draw_strokes(folder.path(), &n_lines);
    for stream in ["data.stream=true", "data.stream=false"] {
        let sets = [&SEQUENCE[..], &[stream, "memory.capacity=256MiB"]].concat();
        check_peaks("sequence", &sets, Some(folder.path()));
    }
}

#[test]
fn a_language_model_trains_and_writes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let small = ["text.width=16", "text.layers=1", "text.vocabulary=300", "batch.effective_batch_size=1024"];
    let sets: Vec<_> = small.iter().flat_map(|it| ["--set", it]).chain(["--steps", "6"]).collect();
    let shown = trained("text", &out, &sets);
    assert!(shown.contains("nats/token"), "{shown}");
    // A run that goes on elsewhere keeps its rows.
    assert!(fs::read_to_string(out.join("config.toml")).unwrap().contains("\npack = true\n"));
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
    trained("sequence", &out, &[&sets[..], &["--steps", "6", "--set", "data.stream=false"]].concat());
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
    refused(&built_in("multitask", "tasks.shares=\"half\""), &["tasks.shares", "half"]);
    let of_three = "allowed is a number for each of 3 tasks (single, subject, pair), or \"default\"";
    let above = "allowed is a number above 0 for each of 3 tasks (single, subject, pair), or \"default\"";
    for (key, value, allowed) in [
        ("shares", "0.5, 0.2, 0.1", "allowed is a sum of 1, and not 0.8, unless `tasks.normalize_shares` is true"),
        ("shares", "0.5, 0.5", of_three),
        ("shares", "0.5, 0.5, 0", "allowed is a number above 0 for `pair`, which has "),
        ("weights", "1, 1", above),
        ("weights", "1, 0, 1", above),
    ] {
        let set = format!("tasks.{key}=\"{value}\"");
        let output = train("multitask", &out, &["--set", &set, "--set", "tasks.balance=fixed"]);
        refused(&output, &[&format!("use the configuration: `tasks.{key}` is \"{value}\", {allowed}")]);
    }
    let of_stream = ["--set", "data.stream=true", "--set", "tasks.shares=\"0.5, 0.25, 0.25\""];
    let allowed = "\"default\" for samples of one task and one source, and for tasks that are streamed";
    refused(&train("multitask", &out, &of_stream), &["`tasks.shares` is \"0.5, 0.25, 0.25\"", allowed]);
    let of_stream = ["--set", "data.stream=true", "--set", "tasks.temperature=2"];
    refused(&train("multitask", &out, &of_stream), &["`tasks.temperature` is 2", "and for tasks that are streamed"]);
    let one = "allowed is \"default\" for samples of one task and one source";
    refused(&built_in("text", "tasks.shares=0.5, 0.5"), &["`tasks.shares` is \"0.5, 0.5\"", one]);
    refused(
        &built_in("sr", "tasks.ends=first"),
        &["`tasks.ends` is \"first\", allowed is \"all-once\" for samples of one"],
    );
    refused(
        &built_in("sequence", "tasks.temperature=2"),
        &["`tasks.temperature` is 2, allowed is 1", "`data.source_column` names"],
    );
    for (stream, value, allowed) in [
        ("true", "ada=0.5, bob=0.5", "or \"default\": `bob` is none of them"),
        ("false", "ada=1", " has none"),
        ("true", "0.5, 0.5", "allowed is a number for each of 6 sources (ada, "),
        ("true", "1, 1, 1, 1, 1, 1", "allowed is a sum of 1, and not 6"),
        ("false", "1, 1, 1, 1, 1, 1", "allowed is a sum of 1, and not 6"),
        ("true", "0.2, 0.2, 0.2, 0.2, 0.2, 0", "allowed is a number above 0 for `"),
    ] {
        let sets = ["data.source_column=speaker", &format!("tasks.shares={value}"), &format!("data.stream={stream}")]
            .map(str::to_owned);
        let args: Vec<_> = sets.iter().flat_map(|set| ["--set", set]).collect();
        refused(&train("sequence", &out, &args), &[&format!("`tasks.shares` is \"{value}\", "), allowed]);
    }
    refused(&built_in("sequence", "policy.kind=stepwise"), &["policy.kind", "certified"]);
    refused(&built_in("sequence", "batch.batch_max=33"), &["batch.batch_max", "33", "32"]);
    for job in ["text", "sequence", "sr"] {
        let parts = ["`batch.effective_batch_size` is 4000000000, allowed is ", "1048576"];
        refused(&built_in(job, "batch.effective_batch_size=4000000000"), &parts);
    }
    assert!(!out.exists(), "a refused run left something behind");
}
