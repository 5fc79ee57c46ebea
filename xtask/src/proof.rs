//! The binary `proof`, which holds plans and finder against real devices.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::networks::{built, with_device};
use crate::vulkan;

/// Builds the binary with `cargo`, and returns a command that runs `task`, writes to `out`, and passes on the rest of
/// `args`.
pub(crate) fn proof(mut cargo: Command, task: &str, out: &Path, args: &[OsString]) -> anyhow::Result<Command> {
    let (flags, passed_on): (Vec<&OsString>, Vec<_>) = args.iter().partition(|it| *it == "--cuda");
    // Some tasks run the product beside it.
    cargo.args(["--bin", "proof", "--bin", "plimsoll"]);
    if !flags.is_empty() {
        with_device(&mut cargo, "cuda");
    }
    let binary = built(cargo)?.with_file_name(format!("proof{}", std::env::consts::EXE_SUFFIX));
    println!("{} runs on its own, also on another machine", binary.display());
    let mut command = Command::new(binary);
    command.arg(task).arg(out).args(passed_on);
    if let Some(vulkan) = vulkan::find() {
        vulkan.equip(&mut command);
    }
    Ok(command)
}
