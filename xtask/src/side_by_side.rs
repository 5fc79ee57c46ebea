//! The programs of tests, several at a time.
//!
//! Cargo runs one after the other, and many hold tests that run alone: most of the time one core of two would have nothing to do.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::process::Stop;

/// Programs at a time: each runs its tests on all cores, where it can.
const AT_ONCE: usize = 2;

/// Programs that take one to three minutes, which come first, so that none of them is the last one and runs alone.
const LONGEST: [&str; 4] = ["train: fit", "cli: ranks", "cli: commands", "train: recompute"];

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    path: PathBuf,
    /// The package's folder, in which Cargo would run it.
    folder: PathBuf,
}

/// Builds what `cargo test` would, and runs all of it, documentation aside; each program says at its end what its tests said.
pub(crate) fn run(mut command: Command) -> anyhow::Result<()> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = command.output().context("failed to start cargo")?;
    if !output.status.success() {
        return Err(Stop::Child { code: 101 }.into());
    }
    let programs = programs(&String::from_utf8_lossy(&output.stdout));
    anyhow::ensure!(!programs.is_empty(), "cargo has built no program of tests, or named none");
    let failed = failures(programs, &|program| run_one(program, &command));
    if failed.is_empty() {
        return Ok(());
    }
    for Failure { said, .. } in &failed {
        // Last of all, where whoever reads the end of a log finds it.
        println!("{said}");
    }
    println!("failed: {}", failed.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", "));
    Err(Stop::Child { code: 101 }.into())
}

/// A program that has not passed.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    name: String,
    /// What it printed, or why it did not start.
    said: String,
}

/// Runs programs, and returns those that have not passed.
fn failures(programs: VecDeque<Program>, run: &(dyn Fn(&Program) -> Result<(), String> + Sync)) -> Vec<Failure> {
    let (programs, failed) = (Mutex::new(programs), Mutex::new(Vec::new()));
    // Of its own, so that nobody holds the lock while a program runs.
    let next = || lock(&programs).pop_front();
    let work = || {
        while let Some(program) = next() {
            if let Err(said) = run(&program) {
                lock(&failed).push(Failure { name: program.name, said });
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the programs that cargo's messages name, in their order but for the longest.
fn programs(messages: &str) -> VecDeque<Program> {
    let program = |message: Value| {
        let manifest = Path::new(message.get("manifest_path")?.as_str()?);
        let is_test = message.get("profile")?.get("test")?.as_bool()?;
        let path = message.get("executable")?.as_str().filter(|_| is_test)?;
        let (folder, target) = (manifest.parent()?, message.get("target")?.get("name")?.as_str()?);
        let package = folder.file_name()?.to_string_lossy();
        Some(Program { name: format!("{package}: {target}"), path: path.into(), folder: folder.to_owned() })
    };
    let mut all: Vec<_> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).filter_map(program).collect();
    all.sort_by_key(|it| LONGEST.iter().position(|name| *name == it.name).unwrap_or(LONGEST.len()));
    all.into()
}

/// Runs a program with the variables of a command, and prints what it says where all its tests have passed, or else returns it.
fn run_one(Program { name, path, folder }: &Program, like: &Command) -> Result<(), String> {
    let start = Instant::now();
    let mut command = Command::new(path);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().map_err(|error| format!("   {name} FAILED: it could not be started: {error}"))?;
    let (is_passed, seconds) = (output.status.success(), start.elapsed().as_secs_f64());
    let outcome = if is_passed { "passed" } else { "FAILED" };
    let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    if is_passed {
        // In one piece, since another program may end meanwhile.
        print!("   {name} {outcome} after {seconds:.1} s\n{said}");
        return Ok(());
    }
    println!("   {name} {outcome} after {seconds:.1} s: what it said comes last");
    Err(format!("── {name}: {}\n{said}{errors}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_the_messages_of_cargo() {
        let message = |is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/step/Cargo.toml","target":{{"name":"steps"}},
                    "profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
            .replace('\n', "")
        };
        let messages = [
            message(true, r#""/a/target/steps-1""#),
            message(false, r#""/a/target/plimsoll""#),
            message(true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let (path, folder) = ("/a/target/steps-1".into(), "/a/crates/step".into());
        assert_eq!(programs(&messages.join("\n")), [Program { name: "step: steps".to_owned(), path, folder }]);
    }

    #[test]
    fn the_longest_programs_come_first_and_are_there() {
        let of = |name: &str| {
            let (package, target) = name.split_once(": ").unwrap();
            format!(
                r#"{{"manifest_path":"/a/crates/{package}/Cargo.toml","target":{{"name":"{target}"}},
                    "profile":{{"test":true}},"executable":"/a/target/{target}"}}"#
            )
            .replace('\n', "")
        };
        let messages: Vec<_> = ["a: b", "c: d"].iter().chain(LONGEST.iter().rev()).map(|it| of(it)).collect();
        let names: Vec<_> = programs(&messages.join("\n")).into_iter().map(|it| it.name).collect();
        assert_eq!(names, [&LONGEST[..], &["a: b", "c: d"]].concat());
        for name in LONGEST {
            let (package, target) = name.split_once(": ").unwrap();
            let tests = crate::process::root().join("crates").join(package).join("tests");
            assert!(
                tests.join(format!("{target}.rs")).is_file() || tests.join(target).join("main.rs").is_file(),
                "{name}"
            );
        }
    }

    #[test]
    fn as_many_programs_run_at_a_time_as_are_said() {
        let program = |at: usize| Program { name: at.to_string(), path: "".into(), folder: "".into() };
        // Each waits for another that runs meanwhile.
        let both = std::sync::Barrier::new(AT_ONCE);
        let failed = failures((0..2 * AT_ONCE).map(program).collect(), &|program| {
            both.wait();
            if program.name == "1" { Err("no".to_owned()) } else { Ok(()) }
        });
        assert_eq!(failed, [Failure { name: "1".to_owned(), said: "no".to_owned() }]);
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_has_not_passed() {
        let program = |path: &str| Program { name: "one".to_owned(), path: path.into(), folder: "/".into() };
        let like = Command::new("cargo");
        let said = run_one(&program("/nowhere/at/all"), &like).unwrap_err();
        assert!(said.contains("one FAILED: it could not be started"), "{said}");
        #[cfg(unix)]
        {
            run_one(&program("/bin/true"), &like).unwrap();
            let said = run_one(&program("/bin/false"), &like).unwrap_err();
            assert!(said.starts_with("── one: exit status: 1"), "{said}");
        }
    }
}
