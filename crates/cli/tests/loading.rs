//! Ends that come while data are loaded.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// Names of one image; to decode it under each of them takes seconds on any machine.
const N_NAMES: usize = 6000;

/// Makes a folder of one image under many names.
fn many_images(folder: &Path) {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
    let first = folder.join("0.png");
    fs::copy(images.join("00_leaves.png"), &first).unwrap();
    (1..N_NAMES).for_each(|at| fs::hard_link(&first, folder.join(format!("{at}.png"))).unwrap());
}

fn signal(name: &str, child: &Child) {
    let killed = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn a_signal_while_images_are_decoded_ends_the_run_as_one_between_steps_does() {
    let folder = tempfile::tempdir().unwrap();
    let (images, out) = (folder.path().join("images"), folder.path().join("run"));
    fs::create_dir(&images).unwrap();
    many_images(&images);
    for (name, code, args) in [("INT", 130, &["--no-supervise"][..]), ("TERM", 143, &[])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["train", "--data"]).arg(&images).arg("--out").arg(&out).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is made before the first image is decoded.
        let (start, pixels) = (Instant::now(), out.join("decoded.pixels"));
        while !pixels.exists() {
            assert!(start.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing is decoded");
            sleep(Duration::from_millis(2));
        }
        signal(name, &child);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("interrupted") && !stderr.contains("starting again"), "{stderr}");
        assert!(!pixels.exists() && !out.join("events.jsonl").exists(), "{stderr}");
    }
}

/// What each job reads first, and what is in it.
const FIRST: [(&str, &str, &str); 3] = [
    ("sequence", "labels.csv", "path,label\na.wav,short\nb.wav,long\n"),
    ("multitask", "samples.jsonl", "{\"task\":\"single\",\"subjects\":[\"a\"],\"images\":[\"a.png\"],\"text\":\"\"}\n"),
    ("text", "a.txt", "The tide comes in and the tide goes out, as it does on every day of the year.\n"),
];

/// Begins a run of a job, asks it to end while it reads the first file, and returns its exit code and what it said.
fn end_while_reading(
    folder: &Path,
    (job, file, content): (&str, &str, &str),
    name: &str,
    args: &[&str],
) -> (i32, String) {
    let (data, out, said) = (folder.join("data"), folder.join("run"), folder.join("said"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("b.txt"), content).unwrap();
    // A pipe is read as long as somebody writes it.
    let pipe = data.join(file);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--job", job, "--data"]).arg(&data).arg("--out").arg(&out).args(args);
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()).spawn().unwrap();
    let ((opened, is_read), (go, may_go)) = (channel(), channel());
    let content = content.to_owned();
    spawn(move || {
        let mut pipe = File::options().write(true).open(pipe).unwrap();
        opened.send(()).unwrap();
        if may_go.recv().is_ok() {
            pipe.write_all(content.as_bytes()).unwrap();
        }
    });
    is_read.recv_timeout(PATIENCE).expect("the first file is read");
    signal(name, &child);
    let (start, said) = (Instant::now(), || fs::read_to_string(&said).unwrap());
    while !said().contains("a second signal ends at once") {
        assert!(start.elapsed() < PATIENCE, "the signal is not heard: {}", said());
        sleep(Duration::from_millis(2));
    }
    go.send(()).unwrap();
    let code = child.wait().unwrap().code().unwrap();
    assert!(!out.join("events.jsonl").exists(), "{}", said());
    (code, said())
}

#[test]
fn a_signal_while_any_job_reads_its_data_ends_the_run_as_one_between_steps_does() {
    for first in FIRST {
        for (name, code, args) in [("INT", 130, &["--no-supervise"][..]), ("TERM", 143, &[])] {
            let folder = tempfile::tempdir().unwrap();
            let (ended, said) = end_while_reading(folder.path(), first, name, args);
            assert_eq!(ended, code, "{first:?}: {said}");
            assert!(said.contains("interrupted") && !said.contains("starting again"), "{first:?}: {said}");
        }
    }
}

#[test]
fn a_signal_while_a_plan_or_a_search_is_under_way_leaves_no_decoded_images() {
    let folder = tempfile::tempdir().unwrap();
    let (images, temporary) = (folder.path().join("images"), folder.path().join("temporary"));
    fs::create_dir(&images).unwrap();
    fs::create_dir(&temporary).unwrap();
    many_images(&images);
    for (command, name, code) in [("plan", "INT", 130), ("find", "TERM", 143)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        program.args([command, "--data"]).arg(&images).current_dir(folder.path()).env("TMPDIR", &temporary);
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (start, is_empty) = (Instant::now(), || fs::read_dir(&temporary).unwrap().next().is_none());
        let holds_pixels = || {
            let folders = fs::read_dir(&temporary).unwrap().flatten();
            folders.into_iter().any(|it| it.path().join("decoded.pixels").exists())
        };
        while !holds_pixels() {
            assert!(start.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing is decoded");
            sleep(Duration::from_millis(2));
        }
        signal(name, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{command}");
        assert!(is_empty(), "{command} leaves decoded images");
    }
}

#[test]
fn nothing_is_silent_for_long_while_data_are_loaded_and_searched() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    fs::create_dir(&images).unwrap();
    many_images(&images);
    let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    program.args(["find", "--data"]).arg(&images).current_dir(folder.path());
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // One line would tell of nothing that goes on.
    let is_told = |line: &String| ["loading ", "planning ", "finding "].iter().any(|it| line.starts_with(it));
    let told = lines.by_ref().map_while(Result::ok).filter(is_told).take(2).count();
    assert_eq!(told, 2);
    signal("TERM", &child);
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
