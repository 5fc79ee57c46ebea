//! Every command line of README, docs and help texts is one that the program takes and runs, from whatever folder.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::{Rgb, RgbImage};

use common::SMALL;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn plimsoll(args: &[String]) -> (bool, String) {
    let elsewhere = tempfile::tempdir().unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).current_dir(elsewhere.path()).output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&all).into_owned())
}

/// The commands of the program, as its help lists them.
fn commands() -> Vec<String> {
    let (_, help) = plimsoll(&["--help".to_owned()]);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let rows = list.lines().take_while(|it| !it.is_empty()).filter(|it| it.starts_with("  ") && !it.starts_with("   "));
    rows.map(|it| it.split_whitespace().next().unwrap().to_owned()).filter(|it| it != "help").collect()
}

/// Every line of a block of commands, and every span between backticks.
fn spans(markdown: &str) -> Vec<String> {
    // Whether the lines of a block are commands.
    let (mut spans, mut block) = (Vec::new(), None);
    for line in markdown.lines() {
        let is_fence = line.starts_with("```");
        block = match block {
            None if is_fence => Some(["```sh", "```", "```bash", "```console"].contains(&line.trim())),
            Some(_) if is_fence => None,
            block => block,
        };
        if is_fence {
            continue;
        }
        match block {
            Some(true) => {
                let line = line.trim_start_matches("$ ");
                spans.push(line.split(" #").next().unwrap().trim().to_owned());
            }
            Some(false) => {}
            None => spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    spans
}

/// Returns the arguments for the program or the name of a task in a span, if it is a command line of this project.
fn words(span: &str) -> Option<(bool, Vec<String>)> {
    let words: Vec<_> = span.split_whitespace().map(|it| it.trim_matches(['\'', '"']).to_owned()).collect();
    let words = words.into_iter().filter(|it| !it.starts_with('[')).collect::<Vec<_>>();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["plimsoll", rest @ ..] => Some((false, rest.iter().map(ToString::to_string).collect())),
        ["cargo", "xtask", rest @ ..] => Some((true, rest.iter().map(ToString::to_string).collect())),
        _ => None,
    }
}

/// Puts something that may stand there in the place of a placeholder.
fn filled(word: &str) -> String {
    if word == "N" { "1".to_owned() } else { word.trim_end_matches("..").to_owned() }
}

#[track_caller]
fn check(place: &str, span: &str, commands: &[String], tasks: &str) -> bool {
    let Some((is_task, words)) = words(span) else { return false };
    let Some(name) = words.first().filter(|it| !it.chars().all(char::is_uppercase)) else { return false };
    if !commands.contains(name) {
        let is_known = is_task && (tasks.contains(&format!("\"{name}\" =>")) || name == "help") || name == "--help";
        assert!(is_known, "{place}: `{span}`: there is no such command");
        return true;
    }
    let args: Vec<_> = words.iter().map(|it| filled(it)).chain(["--help".to_owned()]).collect();
    let (is_taken, said) = plimsoll(&args);
    assert!(is_taken && said.contains("Usage:"), "{place}: `{span}`: {said}");
    true
}

/// Returns the pages of the root and of the docs but for what was measured, and the README of each crate, each with what it
/// is called.
fn pages() -> Vec<(String, String)> {
    let root = root();
    let inside = |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|it| it.unwrap().path());
    let readmes = inside("crates").map(|it| it.join("README.md"));
    // What has changed names commands that are gone.
    let own = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|it| root.join(it));
    let all = inside("docs").chain(inside("docs/data")).chain(readmes).chain(own);
    let pages = all.filter(|it| it.extension().is_some_and(|it| it == "md"));
    pages.map(|it| (it.display().to_string(), fs::read_to_string(it).unwrap())).collect()
}

#[test]
fn every_command_line_of_the_docs_is_taken() {
    let (root, commands) = (root(), commands());
    let tasks = fs::read_to_string(root.join("xtask/src/main.rs")).unwrap();
    let mut n = 0;
    for (place, text) in pages() {
        n += spans(&text).iter().filter(|span| check(&place, span, &commands, &tasks)).count();
        for span in spans(&text).iter().filter_map(|it| it.split_once("--path ")) {
            assert!(root.join(span.1.split(' ').next().unwrap()).is_dir(), "{place}: there is no {}", span.1);
        }
    }
    assert!(15 < n, "only {n} command lines were found");
}

#[test]
fn every_command_line_of_the_help_is_taken_and_every_command_says_what_it_is_for() {
    let (commands, tasks) = (commands(), fs::read_to_string(root().join("xtask/src/main.rs")).unwrap());
    for command in &commands {
        let (is_taken, help) = plimsoll(&[command.clone(), "--help".to_owned()]);
        assert!(is_taken && help.contains("Exit codes:"), "{help}");
        for span in spans(&help) {
            check(command, &span, &commands, &tasks);
        }
    }
    assert!(["train", "plan", "find", "replay"].iter().all(|it| commands.contains(&(*it).to_owned())), "{commands:?}");
}

#[test]
fn a_command_line_that_is_wrong_is_found() {
    let commands = commands();
    let found = |span: &str| std::panic::catch_unwind(|| check("here", span, &commands, "\"logs\" =>"));
    assert!(matches!(found("cargo xtask logs --accept"), Ok(true)));
    assert!(matches!(found("plimsoll train --steps N"), Ok(true)));
    assert!(matches!(found("ls"), Ok(false)));
    for wrong in ["plimsoll fly", "cargo xtask fly", "plimsoll train --stepz 3", "plimsoll find --deterministic"] {
        assert!(found(wrong).is_err(), "{wrong}");
    }
}

/// Steps that are few, and small.
const SHORT: [&str; 2] = ["train.steps=2", "batch.effective_batch_size=8"];

/// On a software device most of the time goes into kernels, some of which are made anew for each size.
const ONE_SIZE: [&str; 3] = ["batch.patch_min=16", "batch.patch_max=16", "sr.validation_tile=16"];

/// A folder that is no clone, with all that command lines name.
struct Elsewhere(tempfile::TempDir);

impl Elsewhere {
    fn new() -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        fs::create_dir(it.path().join("photos")).unwrap();
        for n in 0..6_u8 {
            let image =
                RgbImage::from_fn(96, 96, |x, y| Rgb([x, y, 40 * u32::from(n)].map(|it| u8::try_from(it).unwrap())));
            image.save(it.path().join(format!("photos/{n}.png"))).unwrap();
        }
        fs::write(it.path().join("lengths.txt"), "3\n7\n12\n5\n").unwrap();
        for job in ["sr", "text", "sequence"] {
            it.run(&format!("plimsoll train --job {job} --out {job}")).unwrap();
        }
        it
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Puts what is there in the place of a placeholder.
    fn named(command: &str, word: &str) -> String {
        let log = || root().join("fixtures/logs/fixed.jsonl").display().to_string();
        let recording = || root().join("fixtures/sequence/wav").read_dir().unwrap().next().unwrap().unwrap().path();
        match (command, word.trim_end_matches("..")) {
            (_, "N") => "64".to_owned(),
            (_, "JOB") => "sr".to_owned(),
            (_, "TEXT") => "Once".to_owned(),
            (_, "FOLDER" | "~/photos") => "photos".to_owned(),
            (_, "IMAGE") => "photos/0.png".to_owned(),
            ("predict", "FILE") => recording().display().to_string(),
            ("plan-batches", "FILE") => "lengths.txt".to_owned(),
            (_, "PLAN") => "plan.bin".to_owned(),
            ("generate", "RUN") | ("report", "OTHER") => "text".to_owned(),
            ("predict", "RUN") => "sequence".to_owned(),
            // Any port will do, and that of the page may be taken.
            (_, "127.0.0.1:9464") => "127.0.0.1:0".to_owned(),
            // An incident takes a fault: a log stands for one.
            ("replay", "incident-N.json") => log(),
            (_, word) => word.replace("RUN", "sr"),
        }
    }

    /// Runs a command line with a small model and few steps; returns what it says where it fails.
    fn run(&self, line: &str) -> Result<(), String> {
        let words = words(line).unwrap().1;
        let takes_settings = ["train", "plan", "find"].contains(&words[0].as_str());
        let of_device = ONE_SIZE.iter().filter(|_| line.contains("--device vulkan"));
        let small = SMALL.iter().chain(&SHORT).chain(of_device).filter(|_| takes_settings).flat_map(|it| ["--set", it]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(words.iter().map(|it| Self::named(&words[0], it))).args(small).current_dir(self.path());
        let output = command.output().unwrap();
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

#[test]
fn every_command_line_of_the_docs_runs_in_a_folder_that_is_no_clone() {
    let (commands, pages, elsewhere) = (commands(), pages(), Elsewhere::new());
    let shown = plimsoll(&["probe".to_owned()]).1;
    let has = |device: &str| shown.lines().any(|it| it.starts_with(device) && it.contains("capacity"));
    let starts_ranks = Command::new("mpirun").args(["-n", "2", "true"]).output().is_ok_and(|it| it.status.success());
    // What a line takes, and whether it is here.
    let missing = [
        ("--device vulkan", has("vulkan:0: ")),
        ("--device cuda", has("cuda:1: ")),
        ("--ranks", cfg!(feature = "mpi") && starts_ranks),
    ];
    // What a page names by its name alone is run as its help says.
    let by_help = ["plimsoll probe", "plimsoll replay RUN/events.jsonl"].map(str::to_owned);
    let lines = pages.iter().flat_map(|(_, text)| spans(text)).chain(by_help);
    let is_command =
        |it: &String| words(it).and_then(|it| it.1.into_iter().next()).is_some_and(|it| commands.contains(&it));
    let lines: BTreeSet<_> = lines.filter(|it| is_command(it) && it != "plimsoll replay").collect();
    for line in &lines {
        let ended = elsewhere.run(line);
        match missing.iter().find(|(it, is_there)| line.contains(it) && !is_there) {
            Some((missing, _)) => {
                let said = ended.expect_err("it is not there");
                let name = missing.rsplit(['-', ' ']).next().unwrap();
                assert!(said.contains(name), "`{line}`: {said}");
            }
            None => ended.unwrap_or_else(|said| panic!("`{line}`: {said}")),
        }
    }
    for command in &commands {
        let is_run = lines.iter().any(|it| words(it).is_some_and(|it| it.1[0] == *command));
        assert!(is_run, "`{command}` is in README and docs with no line that runs");
    }
}
