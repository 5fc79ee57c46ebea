//! Nothing is silent for longer than two seconds, whatever takes long and wherever the output goes.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::Child;

/// What nobody has to wait longer for than to read a line.
const MOST: Duration = Duration::from_secs(2);

/// Attempts of a command: a machine with other work to do may keep it waiting once, but not each time.
const ATTEMPTS: usize = 3;

/// How long a command is watched that takes longer.
const WATCHED: Duration = Duration::from_secs(8);

/// Commands that take all cores would keep each other waiting.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn follow(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
}

/// Runs a command, which does not fail, and returns its longest silence with the line that came before, and all that it
/// said.
#[track_caller]
fn silence(folder: &Path, args: &[&str]) -> (Duration, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begun) = (Child::start(&mut command), Instant::now());
    let (sender, lines) = channel();
    follow(child.stdout.take().unwrap(), sender.clone());
    follow(child.stderr.take().unwrap(), sender);
    let (mut last, mut before, mut said) = (begun, "its start".to_owned(), String::new());
    let mut longest = (Duration::ZERO, String::new());
    loop {
        let line = lines.recv_timeout(WATCHED.saturating_sub(begun.elapsed()));
        if longest.0 < last.elapsed() {
            longest = (last.elapsed(), before);
        }
        last = Instant::now();
        let line = match line {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                assert!(child.wait().unwrap().success(), "{args:?}: {said}");
                break;
            }
        };
        writeln!(said, "{:7.3} {line}", begun.elapsed().as_secs_f64()).unwrap();
        before = line;
    }
    (longest.0, longest.1, said)
}

/// Holds that a command says something at least every two seconds.
#[track_caller]
fn check(folder: &Path, args: &[&str]) -> String {
    let mut silent = Vec::new();
    for (longest, before, said) in (0..ATTEMPTS).map(|_| silence(folder, args)) {
        if longest <= MOST {
            return said;
        }
        silent.push(format!("{longest:?} after `{before}`\n{said}"));
    }
    panic!("{args:?} is silent for {}", silent.join("\n"));
}

fn train(folder: &Path, name: &str, args: &[&str]) -> PathBuf {
    let out = folder.join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--no-supervise", "--overwrite", "--out"]).arg(&out).args(args).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    out
}

/// Steps of seconds.
const LARGE: [&str; 6] = ["--capacity", "4GiB", "--set", "sr.channels=256", "--set", "sr.blocks=8"];

#[test]
fn a_run_tells_of_long_steps_validations_and_its_end() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let train = ["train", "--no-supervise", "--overwrite", "--out", "run"];
    let large = [&LARGE[..], &["--set", "batch.batch_min=8", "--set", "batch.batch_max=8"]].concat();
    let said = check(folder.path(), &[&train[..], &large].concat());
    assert!(said.contains(" s so far"), "{said}");
    // Short steps, each of which would be told too often.
    let small = ["--steps", "100000", "--set", "sr.channels=16", "--set", "sr.blocks=2"];
    let said = check(folder.path(), &[&train[..], &small].concat());
    let n_lines = said.lines().filter(|it| it.contains("training loss")).count();
    let seconds: f64 = said.lines().last().unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(0 < n_lines && (n_lines as f64) < 2.0 + seconds / 0.7, "{n_lines} lines: {said}");
}

#[test]
fn a_search_and_a_plan_tell_of_what_they_do() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for command in ["find", "plan"] {
        check(folder.path(), &[&[command][..], &LARGE].concat());
    }
}

#[test]
fn a_model_put_to_use_tells_of_what_it_does() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let sr = ["--steps", "1", "--capacity", "2GiB", "--set", "sr.channels=128", "--set", "sr.blocks=4"];
    let text = ["--job", "text", "--steps", "1", "--capacity", "2GiB"];
    let sequence = ["--job", "sequence", "--steps", "1", "--set", "sequence.head_width=64", "--capacity", "2GiB"];
    let runs = [("sr", &sr[..]), ("text", &text), ("sequence", &sequence)];
    let runs = runs.map(|(name, args)| train(folder.path(), name, args));
    let [sr, text, sequence] = runs.each_ref().map(|it| it.to_str().unwrap());
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr/00_leaves.png");
    let large = image::open(image).unwrap().resize_exact(900, 700, image::imageops::FilterType::Nearest);
    large.save(folder.path().join("large.png")).unwrap();
    check(folder.path(), &["upscale", sr, "large.png"]);
    let prompts = "The tide comes in\n".repeat(64);
    fs::write(folder.path().join("prompts.txt"), prompts).unwrap();
    check(folder.path(), &["generate", text, "--prompts", "prompts.txt", "--max-tokens", "200"]);
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sequence/wav");
    let is_sound = |it: &PathBuf| it.extension().is_some_and(|it| it == "wav");
    let first = fs::read_dir(recording).unwrap().map(|it| it.unwrap().path()).find(is_sound).unwrap();
    fs::copy(first, folder.path().join("0.wav")).unwrap();
    let files: Vec<_> = (0..2000).map(|at| format!("{at}.wav")).collect();
    files[1..].iter().for_each(|it| fs::hard_link(folder.path().join("0.wav"), folder.path().join(it)).unwrap());
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    check(folder.path(), &[&["predict", sequence][..], &files].concat());
}

#[test]
fn what_reads_much_tells_of_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    check(folder.path(), &["probe"]);
    let run = train(folder.path(), "run", &["--steps", "200", "--set", "sr.channels=4", "--set", "sr.blocks=1"]);
    let log = run.join("events.jsonl").display().to_string();
    check(folder.path(), &[&["replay"][..], &vec![log.as_str(); 200]].concat());
    let lengths: String =
        (0..4_000_000_u64).fold(String::new(), |text, at| text + &format!("{}\n", 1 + at * 7919 % 4000));
    fs::write(path("lengths.txt"), lengths).unwrap();
    check(folder.path(), &["plan-batches", "--lengths", "lengths.txt", "--budget", "65536", "--out", "plan.bin"]);
    fs::create_dir(path("texts")).unwrap();
    let tides = (0..1_000_000).fold(String::new(), |text, at| text + &format!("On day {at} the tide comes in.\n\n"));
    fs::write(path("texts/tides.txt"), &tides).unwrap();
    fs::write(path("texts/ebbs.txt"), tides).unwrap();
    check(folder.path(), &["data", "text", "texts"]);
    fs::create_dir(path("images")).unwrap();
    let first = path("images/0.png");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr/00_leaves.png"), &first).unwrap();
    (1..20_000).for_each(|at| fs::hard_link(&first, path(&format!("images/{at}.png"))).unwrap());
    check(folder.path(), &["data", "sr", "images"]);
}
