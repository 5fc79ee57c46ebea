//! The binary `proof`, which holds plans and finder against real devices.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::process::{Stop, cargo};
use crate::vulkan;

/// The variable that names the cargo profile.
pub(crate) const PROFILE: &str = "PLIMSOLL_PROFILE";

/// Builds the binary, and returns a command that runs `task`, writes to `out`, and passes on the rest of `args`.
pub(crate) fn proof(task: &str, out: &Path, args: &[OsString]) -> anyhow::Result<Command> {
    let (flags, passed_on): (Vec<&OsString>, Vec<_>) = args.iter().partition(|it| *it == "--cuda");
    let vulkan = vulkan::find();
    let profile = env::var(PROFILE).unwrap_or_else(|_| "release".to_owned());
    let binary = build(&profile, vulkan.is_some(), !flags.is_empty())?;
    println!("{} runs on its own, also on another machine", binary.display());
    let mut command = Command::new(binary);
    command.arg(task).arg(out).args(passed_on);
    if let Some(vulkan) = vulkan {
        vulkan.equip(&mut command);
    }
    Ok(command)
}

fn build(profile: &str, vulkan: bool, cuda: bool) -> anyhow::Result<PathBuf> {
    let mut command = cargo("build --package plimsoll-bench --package plimsoll-cli --no-default-features --bin proof");
    command.arg("--profile").arg(profile).arg("--features").arg(features(vulkan, cuda));
    built(command)
}

/// Returns the features of both packages.
///
/// The binary needs nothing of `plimsoll-cli`; with it, the dependencies of both have the same features, and Burn is
/// built once for both.
fn features(vulkan: bool, cuda: bool) -> String {
    let devices = [(vulkan, "vulkan"), (cuda, "cuda")].into_iter().filter(|(is_in, _)| *is_in);
    let devices = devices.map(|(_, name)| format!(",plimsoll-bench/{name},plimsoll-cli/{name}"));
    format!("plimsoll-cli/default,plimsoll-bench/proof{}", devices.collect::<String>())
}

/// Runs a command that builds one executable, and returns where that is.
pub(crate) fn built(mut command: Command) -> anyhow::Result<PathBuf> {
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("failed to start cargo")?;
    if !output.status.success() {
        return Err(Stop::Child { code: 101 }.into());
    }
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo named no executable")
}

/// Returns the last executable among cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter_map(|it| it.get("executable")?.as_str().map(PathBuf::from)).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_packages_get_the_same_devices() {
        assert_eq!(features(false, false), "plimsoll-cli/default,plimsoll-bench/proof");
        assert_eq!(
            features(true, true),
            "plimsoll-cli/default,plimsoll-bench/proof,plimsoll-bench/vulkan,plimsoll-cli/vulkan,plimsoll-bench/cuda,\
             plimsoll-cli/cuda"
        );
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"executable\":null}
a warning
{\"reason\":\"compiler-artifact\",\"executable\":\"/target/proof\"}
{\"reason\":\"build-finished\",\"success\":true}";
        assert_eq!(executable(messages), Some(PathBuf::from("/target/proof")));
        assert_eq!(executable("{}"), None);
    }
}
