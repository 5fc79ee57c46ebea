//! `cargo xtask fixtures`: draw the test images again.

use std::ffi::OsString;

use crate::process::{Stop, cargo, root, run as run_command};

pub(crate) const HELP: &str = "\
fixtures
    Makes the files under fixtures/ again; the same seed gives the same files.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    if !args.is_empty() {
        return Err(Stop::Usage("`fixtures` takes no arguments".to_owned()).into());
    }
    let mut command = cargo("run --package plimsoll-fixtures --");
    command.arg(root().join("fixtures"));
    run_command(command)
}
