//! `cargo xtask train`, `plan`, `find` and `generate`: build in release, then run the binary.

use std::ffi::OsString;

use crate::process::{plimsoll, run_instead};

pub(crate) const HELP: &str = "\
train [ARGS..], plan [ARGS..], find [ARGS..], generate RUN [ARGS..]
    Builds plimsoll in release and runs `plimsoll train ARGS..`; `train --help` lists its arguments.
    `--device vulkan` and `--device cuda:1` build the feature of that name.
";

/// Devices that only a build with the feature of the same name can use.
const DEVICES: [&str; 2] = ["vulkan", "cuda"];

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    run_command("train", args)
}

pub(crate) fn plan(args: &[OsString]) -> anyhow::Result<()> {
    run_command("plan", args)
}

pub(crate) fn find(args: &[OsString]) -> anyhow::Result<()> {
    run_command("find", args)
}

pub(crate) fn generate(args: &[OsString]) -> anyhow::Result<()> {
    run_command("generate", args)
}

fn run_command(name: &str, args: &[OsString]) -> anyhow::Result<()> {
    let mut passed_on = vec![OsString::from(name)];
    passed_on.extend_from_slice(args);
    run_instead(plimsoll(feature(args), &passed_on)?)
}

fn feature(args: &[OsString]) -> Option<&'static str> {
    let device = args.iter().zip(1..).find_map(|(arg, next)| match arg.to_str()? {
        "--device" => args.get(next)?.to_str(),
        arg => arg.strip_prefix("--device="),
    })?;
    // As `plimsoll` reads it: whatever the case, and with a number behind a colon where there are several.
    let family = device.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    DEVICES.into_iter().find(|it| *it == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, expected: Option<&str>) {
        let args: Vec<OsString> = args.split_whitespace().map(OsString::from).collect();
        assert_eq!(feature(&args), expected);
    }

    #[test]
    fn the_device_decides_the_feature() {
        check("", None);
        check("--steps 10 --device cuda", Some("cuda"));
        check("--device=vulkan --steps 10", Some("vulkan"));
        check("--device cuda:0 --steps 10", Some("cuda"));
        check("--device=Vulkan:1", Some("vulkan"));
        check("--device flex", None);
        check("--device cudart", None);
        check("--data vulkan --device", None);
    }
}
