//! Which command does a task of this project stand for?
//!
//! `cargo xtask TASK` runs cargo and the `plimsoll` binary as processes and passes their exit codes on.
//!
//! # Invariants
//!
//! * Imports no crate of the workspace, and little else: starting a task never waits for Burn.
//! * `check` is the same for people and for CI, and needs nothing but rustup and git.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to the person who started it")]

mod args;
mod files;
mod networks;
mod process;
mod proof;
mod ranges;
mod vulkan;

mod bench;
mod chaos;
mod check;
mod docs;
mod fixtures;
mod fuzz;
mod gpu_check;
mod logs;
mod replay;
mod side_by_side;
mod train;

mod circles;
mod layers;
mod readmes;
mod tidy;
mod uses;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use process::Stop;

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    let Err(error) = dispatch(&args) else { return ExitCode::SUCCESS };
    match error.downcast_ref() {
        // The child has said what is wrong.
        Some(Stop::Child { code }) => ExitCode::from(*code),
        Some(Stop::Usage(_)) => {
            eprintln!("error: {error}\n`cargo xtask help` lists the tasks");
            ExitCode::from(2)
        }
        Some(Stop::Worse { .. }) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
        None => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[OsString]) -> anyhow::Result<()> {
    match args {
        [] => Err(Stop::Usage("no task given".to_owned()).into()),
        [help] if is_help(help) => {
            println!("cargo xtask TASK, where TASK is one of\n");
            TASKS.iter().try_for_each(|name| print_help(name))
        }
        [help, name] if is_help(help) => print_help(&name.to_string_lossy()),
        // The binary describes its own arguments.
        [name, rest @ ..] if let Some(name) = train::COMMANDS.into_iter().find(|it| name == it) => {
            train::run(name, rest)
        }
        [name, flag] if is_help(flag) => print_help(&name.to_string_lossy()),
        [name, rest @ ..] => (task(&name.to_string_lossy())?.run)(rest),
    }
}

fn is_help(arg: &OsString) -> bool {
    arg == "help" || arg == "--help" || arg == "-h"
}

fn print_help(name: &str) -> anyhow::Result<()> {
    let help = if train::COMMANDS.contains(&name) { train::HELP } else { task(name)?.help };
    println!("{help}");
    Ok(())
}

/// One subcommand.
struct Task {
    help: &'static str,
    run: fn(&[OsString]) -> anyhow::Result<()>,
}

const TASKS: [&str; 10] =
    ["train", "check", "logs", "bench", "chaos", "fuzz", "gpu-check", "replay", "fixtures", "docs"];

fn task(name: &str) -> anyhow::Result<Task> {
    Ok(match name {
        "check" => Task { help: check::HELP, run: check::run },
        "logs" => Task { help: logs::HELP, run: logs::run },
        "bench" => Task { help: bench::HELP, run: bench::run },
        "chaos" => Task { help: chaos::HELP, run: chaos::run },
        "fuzz" => Task { help: fuzz::HELP, run: fuzz::run },
        "gpu-check" => Task { help: gpu_check::HELP, run: gpu_check::run },
        "replay" => Task { help: replay::HELP, run: replay::run },
        "fixtures" => Task { help: fixtures::HELP, run: fixtures::run },
        "docs" => Task { help: docs::HELP, run: docs::run },
        unknown => return Err(Stop::Usage(format!("unknown task `{unknown}`")).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expected: Option<&str>) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        assert_eq!(dispatch(&args).err().map(|error| error.to_string()).as_deref(), expected);
    }

    #[test]
    fn help_is_for_known_tasks_only() {
        check(&["help"], None);
        check(&["help", "train"], None);
        check(&["check", "--help"], None);
        check(&["help", "fly"], Some("unknown task `fly`"));
    }

    #[test]
    fn what_no_task_understands_is_a_usage_error() {
        check(&[], Some("no task given"));
        check(&["fly"], Some("unknown task `fly`"));
        check(&["check", "--all"], Some("`check` takes nothing but --quick or --cuda"));
        check(&["logs", "--all"], Some("`logs` takes nothing but --accept"));
        check(&["bench", "a", "b"], Some("`bench` takes one name at most"));
        let only = "`bench all` takes nothing but --compare BASE.json, --now FILE.json and --above RATIO";
        check(&["bench", "all", "base.json"], Some(only));
        check(&["bench", "scaling", "a"], Some("`bench scaling` takes nothing but --lengths DIR and --events FILE"));
        check(&["bench", "sampler", "a"], Some("`bench sampler` takes nothing but --lengths DIR"));
        let only = "`bench end-to-end` takes nothing but --data-text DIR and --data-sequence DIR";
        check(&["bench", "end-to-end", "--data-text"], Some(only));
        check(&["fuzz", "5"], Some("`fuzz` takes nothing but --seconds N, --seed S and --quick"));
        check(&["fixtures", "a"], Some("`fixtures` takes no arguments"));
        check(&["docs", "a"], Some("`docs` takes no arguments"));
    }
}
