//! Cargo for what runs networks, and for all tests.
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

/// What ships, and what it stands on that takes Burn to build; what is tested is the whole workspace.
const PACKAGES: [&str; 7] = [
    "plimsoll-plan",
    "plimsoll-step",
    "plimsoll-train",
    "plimsoll",
    "plimsoll-workloads",
    "plimsoll-cli",
    "plimsoll-proof",
];

/// `plimsoll-faulty` and `proof` are built too; `plimsoll` is what it is without. Not the default features of
/// plimsoll-bench, because criterion changes those of Burn's dependencies.
pub(crate) const FEATURES: &str = "plimsoll-cli/flex,plimsoll-cli/nvidia,plimsoll-cli/chaos,plimsoll-proof/devices";

/// What tests have too: what stands on Burn's own training, which what ships does without, and sums by NCCL, which say what is
/// missing where there is no device for them.
pub(crate) const ALSO_TESTED: &str = "plimsoll/learner,plimsoll-fleet/nccl";

/// What ships has it and the tests have not: on a software device, choosing the kernels of one small convolutional net
/// takes minutes.
const SHIPPED: &str = "--features=plimsoll-cli/autotune";

/// What `cargo clippy -- -D warnings` sets: then the crates of this workspace are linted as they are built for their tests,
/// and what they depend on is not checked first and then built. Clippy's authors advise against it for what ships, since it
/// may be less optimised.
pub(crate) const LINTED: [(&str, &str); 2] =
    [("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"), ("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")];

/// Returns cargo that builds or tests all of it; Vulkan is built in where a driver is found.
pub(crate) fn command(action: &str) -> Command {
    command_in(&profile(), action, vulkan::find().as_ref())
}

/// Returns the profile that is named, or else that of the tests.
pub(crate) fn profile() -> String {
    env::var(PROFILE).unwrap_or_else(|_| TESTED.to_owned())
}

/// Returns the same in the profile that is named, or else in that of what ships.
pub(crate) fn shipped(action: &str) -> Command {
    command_in(&env::var(PROFILE).unwrap_or_else(|_| "release".to_owned()), action, vulkan::find().as_ref())
}

fn command_in(profile: &str, action: &str, vulkan: Option<&Vulkan>) -> Command {
    let mut command = cargo(action);
    command.args(["--profile", profile, "--no-default-features", "--features", FEATURES]);
    if profile == TESTED {
        command.args(["--workspace", "--features", ALSO_TESTED]).envs(LINTED);
    } else {
        command.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
        command.arg(SHIPPED);
    }
    if has_mpi() {
        command.arg("--features=plimsoll-cli/mpi");
    }
    if let Some(vulkan) = vulkan {
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
    command.arg(format!("--features=plimsoll-cli/{name},plimsoll-proof/{name}"));
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
    fn all_is_tested_and_what_only_tests_need_does_not_ship() {
        let args = |profile: &str| {
            let command = command_in(profile, "build", None);
            command.get_args().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let (tested, ships) = (args(TESTED), args("release"));
        assert!(tested.contains("--workspace") && tested.contains("learner"), "{tested}");
        assert!(!ships.contains("--workspace") && !ships.contains("learner"), "{ships}");
    }

    #[test]
    fn what_is_tested_is_linted_as_it_is_built_and_what_ships_is_what_rustc_builds() {
        let is_linted = |profile| command_in(profile, "build", None).get_envs().any(|it| it.0 == LINTED[0].0);
        assert!(is_linted(TESTED) && !is_linted("release"));
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
        assert_eq!(last, "--features=plimsoll-cli/cuda,plimsoll-proof/cuda");
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
