//! Cargo for the crates that run networks.
//!
//! Every task names the same packages, features and profile, so that Burn is built once for all of them: with other
//! packages its dependencies would get other features, and all of it would be built again.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::process::{Stop, cargo};
use crate::vulkan::{self, Vulkan};

/// The variable that names the cargo profile.
const PROFILE: &str = "PLIMSOLL_PROFILE";

/// The profile of the tests: Burn's kernels optimised, 30 to 70 times faster, all else built fast, and our own crates with
/// their checks.
const TESTED: &str = "ci";

const PACKAGES: [&str; 7] = [
    "plimsoll-plan",
    "plimsoll-step",
    "plimsoll-train",
    "plimsoll",
    "plimsoll-workloads",
    "plimsoll-cli",
    "plimsoll-bench",
];

/// It runs no networks, and is tested with the core: its tests of a device, though, take what is built for networks.
const WITH_DEVICE: &str = "plimsoll-probe";

/// What stands on Burn's own training, which what ships does without.
const LEARNER: &str = "plimsoll-learner";

/// `plimsoll-faulty` and `proof` are built too; `plimsoll` is what it is without. Not the default features of
/// plimsoll-bench, because criterion changes those of Burn's dependencies.
const FEATURES: &str = "plimsoll-cli/flex,plimsoll-cli/nvidia,plimsoll-cli/chaos,plimsoll-bench/proof";

/// What ships has it and the tests have not: on a software device, choosing the kernels of one small convolutional net
/// takes minutes.
const SHIPPED: &str = "--features=plimsoll-cli/autotune";

/// Returns cargo that builds or tests those crates; Vulkan is built in where a driver is found.
pub(crate) fn command(action: &str) -> Command {
    command_in(&env::var(PROFILE).unwrap_or_else(|_| TESTED.to_owned()), action, vulkan::find().as_ref())
}

/// Returns the same in the profile that is named, or else in that of what ships.
pub(crate) fn shipped(action: &str) -> Command {
    command_in(&env::var(PROFILE).unwrap_or_else(|_| "release".to_owned()), action, vulkan::find().as_ref())
}

fn command_in(profile: &str, action: &str, vulkan: Option<&Vulkan>) -> Command {
    let mut command = cargo(action);
    command.args(["--profile", profile, "--no-default-features", "--features", FEATURES]);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    if has_mpi() {
        command.arg("--features=plimsoll-cli/mpi");
    }
    if profile == TESTED {
        command.args(["-p", LEARNER, "--features", "plimsoll/learner"]);
    } else {
        command.arg(SHIPPED);
    }
    if let Some(vulkan) = vulkan {
        command.args(["-p", WITH_DEVICE]);
        with_device(&mut command, "vulkan");
        // What users name has tests of that device too.
        command.arg("--features=plimsoll/vulkan");
        vulkan.equip(&mut command);
    }
    command
}

/// Whether ranks that `mpirun` starts can be built in.
pub(crate) fn has_mpi() -> bool {
    Command::new("mpicc").arg("-show").output().is_ok_and(|it| it.status.success())
}

/// Builds a device in; the features of these two programs bring those of all crates below.
pub(crate) fn with_device(command: &mut Command, name: &str) {
    command.arg(format!("--features=plimsoll-cli/{name},plimsoll-bench/{name}"));
}

/// Builds a program, and returns where it is.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let mut command = command("build");
    command.args(["--bin", name]);
    built(command)
}

/// As [`program`], as it ships.
pub(crate) fn shipped_program(name: &str) -> anyhow::Result<PathBuf> {
    let mut command = shipped("build");
    command.args(["--bin", name]);
    built(command)
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
    fn tests_of_a_device_in_the_core_are_run_where_there_is_one() {
        let packages = |vulkan| {
            let command = command_in("ci", "test", vulkan);
            let args: Vec<_> = command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
            args.windows(2).filter(|it| it[0] == "-p").map(|it| it[1].clone()).collect::<Vec<_>>()
        };
        assert_eq!(packages(None), [&PACKAGES[..], &[LEARNER]].concat());
        assert_eq!(packages(Some(&Vulkan::Installed)), [&PACKAGES[..], &[LEARNER, WITH_DEVICE]].concat());
    }

    #[test]
    fn what_ships_is_built_without_what_only_tests_need() {
        let command = command_in("release", "build", None);
        assert!(!command.get_args().any(|it| it.to_string_lossy().contains("learner")));
    }

    #[test]
    fn what_ships_chooses_kernels_by_timing_and_tests_do_not() {
        let tunes = |profile| command_in(profile, "build", None).get_args().any(|it| it == SHIPPED);
        assert!(tunes("release") && !tunes(TESTED));
    }

    #[test]
    fn both_programs_get_the_same_devices() {
        let mut command = cargo("build");
        with_device(&mut command, "cuda");
        let last = command.get_args().last().unwrap().to_owned();
        assert_eq!(last, "--features=plimsoll-cli/cuda,plimsoll-bench/cuda");
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
