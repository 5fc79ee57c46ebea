//! `cargo xtask logs`: does a run still do what it did?

use std::ffi::OsString;

use crate::networks;
use crate::process::{Stop, run as run_command};

pub(crate) const HELP: &str = "\
logs [--accept]
    Makes a short run of each job, of each policy and under injected failures, on a simulated device whose memory is the
    same on every machine, and holds logs, reports, plans and help texts against crates/cli/tests/logs/snapshots.
    --accept  takes what is there now: read the difference before you commit it. The logs in fixtures/logs are those of
              the same runs, and are recorded anew with them.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let update = match args {
        [] => "no",
        [flag] if flag == "--accept" => "always",
        _ => return Err(Stop::Usage("`logs` takes nothing but --accept".to_owned()).into()),
    };
    let mut command = networks::command("test");
    command.args(["--test", "logs"]).env("INSTA_UPDATE", update);
    run_command(command)
}
