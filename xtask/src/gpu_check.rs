//! `cargo xtask gpu-check`: what a GPU says to the figures.

use std::ffi::OsString;

use crate::networks;
use crate::process::{root, run as run_command};
use crate::proof::proof;

pub(crate) const HELP: &str = "\
gpu-check [--cuda]
    Within nine minutes, on CUDA or else on Vulkan: memory as every observer sees it, plans against real steps, and the
    finder. Writes gpu-check.json and gpu-check.md into target/bench/; a report worth keeping goes into docs/measured/.
    Without a GPU it runs on a software Vulkan device or on the CPU, with fewer cells, and says so.
    --cuda  builds CUDA in, which takes LLVM 23 to build
    Vulkan is built in where a driver is found: the one in VK_DRIVER_FILES, a GPU's, or the software driver of Debian's
    package chromium, which VK_DRIVER_FILES is then set to.
    PLIMSOLL_PROFILE names the cargo profile: `release` by default; `ci` shares the build of `check`.
    The binary that it builds runs on its own: `proof gpu-check FOLDER` on a machine that it was carried to.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    run_command(proof(networks::shipped("build"), "gpu-check", &root().join("target/bench"), args)?)
}
