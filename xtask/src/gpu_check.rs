//! `cargo xtask gpu-check`: what a GPU says to the figures.

use std::ffi::OsString;

use crate::networks;
use crate::process::{root, run as run_command};
use crate::proof::proof;

pub(crate) const HELP: &str = "\
gpu-check [--cuda] [--data FOLDER] [--seconds N]
    Within nine minutes, or N seconds, on CUDA or else on Vulkan, each part with a verdict and a time of its own: memory as every
    observer sees it; plans against real steps of the four jobs and four foreign models, in f32 and bf16; 500 steps at the
    line; a failure survived; a co-tenant; recompute per shape; the chosen micro-batch against a sweep; and the finder.
    The data of the jobs lie in FOLDER, fixtures/ by default. Writes gpu-check.json and gpu-check.md into target/bench/; a
    report worth keeping goes into docs/measured/.
    Without a GPU it runs on a software Vulkan device or on the CPU, with smaller sizes, and says so.
    --cuda  builds CUDA in, which takes LLVM 23 to build
    Vulkan is built in where a driver is found: the one in VK_DRIVER_FILES, a GPU's, or the software driver of Debian's
    package chromium, which VK_DRIVER_FILES is then set to.
    PLIMSOLL_PROFILE names the cargo profile: `release` by default; `ci` shares the build of `check`.
    The two binaries that it builds run on their own, side by side: `proof gpu-check FOLDER --data FOLDER` on a machine
    that they were carried to.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let mut command = proof(networks::shipped("build"), "gpu-check", &root().join("target/bench"), args)?;
    if !args.iter().any(|it| it == "--data") {
        command.arg("--data").arg(root().join("fixtures"));
    }
    run_command(command)
}
