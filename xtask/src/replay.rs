//! `cargo xtask replay`: do the recorded logs still give the same decisions?

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use crate::files::entries;
use crate::networks::program;
use crate::process::{root, run as run_command};

pub(crate) const HELP: &str = "\
replay [FILE..]
    Feeds each log to the policy again and fails where a decision differs.
    Without a file: every fixtures/logs/*.jsonl.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let logs = if args.is_empty() { recorded()? } else { args.to_vec() };
    let mut command = Command::new(program("plimsoll")?);
    command.arg("replay").args(logs);
    run_command(command)
}

fn recorded() -> anyhow::Result<Vec<OsString>> {
    let folder = root().join("fixtures/logs");
    let mut logs = entries(&folder)?;
    logs.retain(|path| path.extension().is_some_and(|it| it == "jsonl"));
    ensure!(!logs.is_empty(), "no *.jsonl in {}", folder.display());
    Ok(logs.into_iter().map(PathBuf::into_os_string).collect())
}
