//! Every command line of README, docs and help texts is one that the program takes, from whatever folder.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let (mut spans, mut is_block) = (Vec::new(), false);
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_block = !is_block && ["```sh", "```", "```bash", "```console"].contains(&line.trim());
        } else if is_block {
            let line = line.trim_start_matches("$ ");
            spans.push(line.split(" #").next().unwrap().trim().to_owned());
        } else {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
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

#[test]
fn every_command_line_of_the_docs_is_taken() {
    let (root, commands) = (root(), commands());
    let tasks = fs::read_to_string(root.join("xtask/src/main.rs")).unwrap();
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|it| it.unwrap().path());
    let pages = docs.chain([root.join("README.md")]).filter(|it| it.extension().is_some_and(|it| it == "md"));
    let mut n = 0;
    for page in pages {
        let (text, place) = (fs::read_to_string(&page).unwrap(), page.display().to_string());
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
