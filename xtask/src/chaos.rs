//! `cargo xtask chaos`: whole trainings under faults.

use std::ffi::OsString;
use std::process::Command;

use crate::networks::program;
use crate::process::{root, run as run_command, run_instead};

pub(crate) const HELP: &str = "\
chaos [--rounds N] [--seed S] [--round K] [--threads N] [--no-picture]
    Runs small trainings of the four jobs, and of two ranks, under random faults, kills and resumptions, compares them with
    undisturbed ones, and writes target/bench/chaos.json and chaos.md, with a picture of the loss under 100 failures. By
    default 300 rounds of seed 0, two at a time; --round repeats one of them alone.
";

/// Rounds of the check: each kind of fault happens in them, and to each subject four times at least.
const SHORT: [&str; 4] = ["--rounds", "20", "--seed", "5"];

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let mut command = driver()?;
    command.args(args);
    run_instead(command)
}

/// Runs some rounds.
pub(crate) fn short() -> anyhow::Result<()> {
    let mut command = driver()?;
    command.args(SHORT).arg("--no-picture");
    run_command(command)
}

/// Builds the driver and the program with faults, and returns the command that runs the one on the other.
fn driver() -> anyhow::Result<Command> {
    let mut command = Command::new(program("chaos")?);
    command.arg(program("plimsoll-faulty")?).arg(root().join("target/bench"));
    Ok(command)
}
