//! Cargo and the `plimsoll` binary as child processes.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::{env, error};

use anyhow::Context;

/// A reason to stop that decides the exit code.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A child failed; its exit code is passed on.
    Child {
        /// The child's exit code, or 1 where it has none.
        code: u8,
    },
    /// The arguments make no sense, for this reason.
    Usage(String),
    /// So many figures are worse than those that they are compared with.
    Worse {
        /// How many.
        n: usize,
    },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child { code } => write!(f, "a command ended with exit code {code}"),
            Self::Usage(reason) => f.write_str(reason),
            Self::Worse { n: 1 } => f.write_str("a figure got worse"),
            Self::Worse { n } => write!(f, "{n} figures got worse"),
        }
    }
}

impl error::Error for Stop {}

/// Returns the root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Returns cargo with these words, to be run in the root of the workspace.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(root());
    command
}

/// Returns a command that builds the `plimsoll` binary in release and runs it in the user's folder.
///
/// On unix `cargo run` replaces itself with the binary, so that signals and exit codes are the binary's own.
pub(crate) fn plimsoll(features: &[&str], args: &[OsString]) -> anyhow::Result<Command> {
    let mut command = cargo("run --release --package plimsoll-cli");
    command.current_dir(env::current_dir().context("failed to find the current folder")?);
    command.arg("--manifest-path").arg(root().join("Cargo.toml"));
    command.args(features.iter().map(|feature| format!("--features={feature}"))).arg("--").args(args);
    Ok(command)
}

/// Runs a command to its end, with the terminal inherited.
///
/// # Errors
///
/// [`Stop::Child`] when the command fails.
pub(crate) fn run(mut command: Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("failed to start {command:?}"))?;
    if status.success() {
        return Ok(());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Stop::Child { code }.into())
}

/// Returns the first line that a program says, where it is there and succeeds.
pub(crate) fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).current_dir(root()).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    output.status.success().then_some(line)
}

/// Becomes the command: nothing of xtask is left that Ctrl-C could end before the command.
#[cfg(unix)]
pub(crate) fn run_instead(mut command: Command) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;

    Err(command.exec()).with_context(|| format!("failed to start {command:?}"))
}

/// Runs the command to its end, where a process cannot become another.
#[cfg(not(unix))]
pub(crate) fn run_instead(command: Command) -> anyhow::Result<()> {
    run(command)
}
