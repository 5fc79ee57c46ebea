//! `cargo xtask chaos`: whole trainings under faults.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::check::job_command;
use crate::process::{cargo, root, run as run_command, run_instead};
use crate::proof::{PROFILE, built};

pub(crate) const HELP: &str = "\
chaos [--rounds N] [--seed S] [--round K] [--threads N] [--no-picture]
    Runs small trainings under random faults, kills and resumptions, compares them with undisturbed ones, and writes
    target/bench/chaos.json and chaos.md, with a picture of the loss under 100 failures. By default 300 rounds of seed
    0, two at a time; --round repeats one of them alone.
";

/// Rounds of the check: each kind of fault happens in them, and with their references they take about a minute.
const SHORT: [&str; 4] = ["--rounds", "14", "--seed", "5"];

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let profile = env::var(PROFILE).unwrap_or_else(|_| "release".to_owned());
    let build = if profile == "ci" {
        job_command("build")
    } else {
        let mut command = cargo("build --package plimsoll-cli --features chaos --profile");
        command.arg(&profile);
        command
    };
    let mut command = driver(&built(build)?)?;
    command.args(args);
    run_instead(command)
}

/// Runs some rounds with the program that the tests of the jobs have built.
pub(crate) fn short() -> anyhow::Result<()> {
    let mut command = driver(&built(job_command("build"))?)?;
    command.args(SHORT).arg("--no-picture");
    run_command(command)
}

/// Builds the driver, and returns the command that runs it on this program.
fn driver(program: &Path) -> anyhow::Result<Command> {
    let driver = built(cargo("build --package plimsoll-bench --no-default-features --bin chaos"))?;
    let mut command = Command::new(driver);
    command.arg(program).arg(root().join("target/bench"));
    Ok(command)
}
