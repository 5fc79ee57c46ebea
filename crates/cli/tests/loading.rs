//! Ends that come while data are loaded.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::Child;

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// Names of one image; to decode it under each of them takes seconds on any machine.
const N_NAMES: usize = 20_000;

/// Makes a folder of one image under many names.
fn many_images(folder: &Path) {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
    let first = folder.join("0.png");
    fs::copy(images.join("00_leaves.png"), &first).unwrap();
    (1..N_NAMES).for_each(|at| fs::hard_link(&first, folder.join(format!("{at}.png"))).unwrap());
}

/// Starts a command, and waits until it says that it loads its data.
#[track_caller]
fn begun(command: &mut Command, said: &Path) -> Child {
    let mut child = Child::start(command.stderr(File::create(said).unwrap()));
    let (start, said) = (Instant::now(), || fs::read_to_string(said).unwrap());
    while !said().contains("loading     ") {
        assert!(start.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing is loaded: {}", said());
        sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn a_signal_while_images_are_decoded_ends_the_run_as_one_between_steps_does() {
    let folder = tempfile::tempdir().unwrap();
    let (images, out) = (folder.path().join("images"), folder.path().join("run"));
    fs::create_dir(&images).unwrap();
    many_images(&images);
    for (name, code, args) in [("INT", 130, &["--no-supervise"][..]), ("TERM", 143, &[])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["train", "--data"]).arg(&images).arg("--out").arg(&out).args(args).stdout(Stdio::null());
        let mut child = begun(&mut command, &folder.path().join("said"));
        child.signal(name);
        let (ended, stderr) = (child.wait().unwrap(), fs::read_to_string(folder.path().join("said")).unwrap());
        assert_eq!(ended.code(), Some(code), "{stderr}");
        assert!(stderr.contains("interrupted") && !stderr.contains("starting again"), "{stderr}");
        assert!(!out.join("events.jsonl").exists(), "{stderr}");
    }
}

/// What each job takes seconds to read on any machine, and what is in it.
fn long_lists() -> [(&'static str, &'static str, String); 3] {
    let (mut list, mut tides) = ("path,label\n".to_owned(), String::new());
    (0..N_LINES).for_each(|at| writeln!(list, "{at}.wav,a").unwrap());
    (0..N_LINES / 8).for_each(|at| write!(tides, "On day {at} the tide comes in, and it goes out.\n\n").unwrap());
    [
        ("sequence", "labels.csv", list),
        ("multitask", "samples.jsonl", "{}\n".repeat(8 * N_LINES)),
        ("text", "a.txt", tides),
    ]
}

/// Lines of a list; none of them makes a sample.
const N_LINES: usize = 2_000_000;

/// Begins a run of a job, asks it to end while it reads its data, and returns its exit code and what it said.
fn end_while_reading(folder: &Path, job: &str, name: &str, args: &[&str]) -> (i32, String) {
    let (data, out, said) = (folder.join(job), folder.join("run"), folder.join("said"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--job", job, "--capacity", "8GiB", "--set", "data.bad_sample=skip", "--data"]).arg(&data);
    command.arg("--out").arg(&out).args(args);
    let mut child = begun(command.stdout(Stdio::null()), &said);
    child.signal(name);
    let (code, said) = (child.wait().unwrap().code().unwrap(), fs::read_to_string(&said).unwrap());
    assert!(!out.join("events.jsonl").exists(), "{said}");
    (code, said)
}

#[test]
fn a_signal_while_any_job_reads_its_data_ends_the_run_as_one_between_steps_does() {
    let folder = tempfile::tempdir().unwrap();
    for (job, list, content) in long_lists() {
        let data = folder.path().join(job);
        fs::create_dir(&data).unwrap();
        fs::write(data.join(list), content).unwrap();
        fs::write(data.join("b.txt"), "The tide comes in and the tide goes out, as it does on every day.").unwrap();
        for (name, code, args) in [("INT", 130, &["--no-supervise"][..]), ("TERM", 143, &[])] {
            let (ended, said) = end_while_reading(folder.path(), job, name, args);
            assert_eq!(ended, code, "{job}: {said}");
            assert!(said.contains("interrupted") && !said.contains("starting again"), "{job}: {said}");
        }
    }
}

#[test]
fn decoded_images_leave_nothing_whatever_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (images, temporary) = (path("images"), path("temporary"));
    fs::create_dir(&images).unwrap();
    fs::create_dir(&temporary).unwrap();
    many_images(&images);
    let names = |folder: &Path| -> Vec<_> { fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect() };
    let train = ["train", "--no-supervise", "--out", "run"];
    for (args, name, code) in [
        (&["plan"][..], "INT", Some(130)),
        (&["find"], "TERM", Some(143)),
        (&["plan"], "KILL", None),
        (&train, "KILL", None),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        program.args(args).arg("--data").arg(&images).current_dir(folder.path()).env("TMPDIR", &temporary);
        let mut child = begun(program.stdout(Stdio::null()), &path("said"));
        child.signal(name);
        assert_eq!(child.wait().unwrap().code(), code, "{args:?}");
        assert!(names(&temporary).is_empty(), "{args:?} leaves {:?} at {name}", names(&temporary));
    }
    // Where the run is, its lock stays, and no image.
    let left: u64 = fs::read_dir(path("run")).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
    assert!(left < 4096, "{:?}", names(&path("run")));
}

#[test]
fn nothing_is_silent_for_long_while_data_are_loaded_and_searched() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    fs::create_dir(&images).unwrap();
    many_images(&images);
    let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    // Of a model whose steps take long on any machine.
    program
        .args(["find", "--set", "sr.channels=256", "--set", "sr.blocks=16", "--data"])
        .arg(&images)
        .current_dir(folder.path());
    let mut child = Child::start(program.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // One line would tell of nothing that goes on.
    let is_told = |line: &String| ["loading ", "planning ", "finding "].iter().any(|it| line.starts_with(it));
    let told = lines.by_ref().map_while(Result::ok).filter(is_told).take(2).count();
    assert_eq!(told, 2);
    child.signal("TERM");
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_process_does_not_outlive_a_test_that_fails() {
    let (sender, ids) = std::sync::mpsc::channel();
    let failed = std::thread::spawn(move || {
        let child = Child::start(Command::new("sleep").arg("600"));
        sender.send(child.id()).unwrap();
        panic!("as a test does");
    });
    assert!(failed.join().is_err());
    let id = ids.recv().unwrap().to_string();
    assert!(!Command::new("kill").args(["-0", &id]).stderr(Stdio::null()).status().unwrap().success());
}
