//! `cargo xtask train` and every other command of the program: build in release, then run the binary.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{plimsoll, run_instead};

pub(crate) const HELP: &str = "\
train, plan, find, generate, upscale, predict, plan-batches, data, probe, report, config [ARGS..]
    Builds plimsoll in release and runs that command of it; `train --help` lists its arguments.
    Devices build the features of their names: those of --device, --set, PLIMSOLL__DEVICE, --config, or of a run that goes on.
";

/// Commands of the program that are passed on as they are.
pub(crate) const COMMANDS: [&str; 11] =
    ["train", "plan", "find", "generate", "upscale", "predict", "plan-batches", "data", "probe", "report", "config"];

/// Tells the program how it was called, for what it advises.
const CALLED_AS: &str = "PLIMSOLL_CALLED_AS";

/// Devices that only a build with the feature of the same name can use.
const DEVICES: [&str; 2] = ["vulkan", "cuda"];

/// Passes a command and its arguments on.
pub(crate) fn run(name: &str, args: &[OsString]) -> anyhow::Result<()> {
    let mut passed_on = vec![OsString::from(name)];
    passed_on.extend_from_slice(args);
    let mut command = plimsoll(&features(name, args, env::var_os("PLIMSOLL__DEVICE").as_deref()), &passed_on)?;
    command.env(CALLED_AS, "cargo xtask");
    run_instead(command)
}

/// Returns the features that the devices need, which are looked for where the program looks, in its order.
fn features(name: &str, args: &[OsString], variable: Option<&OsStr>) -> Vec<&'static str> {
    let of_set = || {
        let mut sets = values(args, "--set").into_iter().filter_map(|it| it.to_str()?.split_once('='));
        sets.rfind(|(key, _)| key.trim() == "device").map(|(_, value)| unquoted(value).to_owned())
    };
    let of_flag = last(args, "--device").and_then(OsStr::to_str).map(str::to_owned);
    let of_variable = || variable.and_then(OsStr::to_str).map(str::to_owned);
    let of_file = || last(args, "--config").and_then(|it| device_of(Path::new(it)));
    let of_run = || device_of(&run_of(name, args)?.join("config.toml"));
    let devices = of_flag.or_else(of_set).or_else(of_variable).or_else(of_file).or_else(of_run).unwrap_or_default();
    // As `plimsoll` reads them: between commas, whatever the case, and with a number behind a colon.
    let family = |device: &str| device.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    let families: Vec<_> = devices.split(',').map(family).collect();
    DEVICES.into_iter().filter(|it| families.iter().any(|family| family == it)).collect()
}

/// Returns all values of a flag, in both ways of writing them.
fn values<'a>(args: &'a [OsString], flag: &str) -> Vec<&'a OsStr> {
    let value = |(arg, next): (&'a OsString, usize)| {
        if arg == flag {
            return args.get(next).map(OsString::as_os_str);
        }
        arg.to_str()?.strip_prefix(flag)?.strip_prefix('=').map(OsStr::new)
    };
    args.iter().zip(1..).filter_map(value).collect()
}

fn last<'a>(args: &'a [OsString], flag: &str) -> Option<&'a OsStr> {
    values(args, flag).pop()
}

/// Returns the run whose configuration is taken: the one that goes on, or whose model is used.
fn run_of(name: &str, args: &[OsString]) -> Option<PathBuf> {
    match name {
        "train" if args.iter().any(|it| it == "--resume") => match last(args, "--out") {
            Some(out) => Some(out.into()),
            None => last_run(Path::new("runs")),
        },
        "generate" | "upscale" | "predict" => {
            args.iter().map(PathBuf::from).find(|it| it.join("config.toml").is_file())
        }
        _ => None,
    }
}

/// Returns the run with the highest number, as `plimsoll` names those that nobody names.
fn last_run(runs: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(runs).ok()?.flatten().map(|it| it.path()).filter(|it| it.join("events.jsonl").is_file());
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("run-")?.parse::<u32>().ok();
    names.filter_map(|path| Some((number(&path)?, path))).max().map(|(_, path)| path)
}

/// Reads the device out of a file of settings; it stands before the first section.
fn device_of(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut top = text.lines().map(str::trim).take_while(|it| !it.starts_with('['));
    let value = top.find_map(|line| line.strip_prefix("device")?.trim_start().strip_prefix('='))?;
    Some(unquoted(value.split('#').next()?).to_owned())
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<'a>(name: &str, args: &str, expected: impl IntoIterator<Item = &'a str>) {
        let args: Vec<OsString> = args.split_whitespace().map(OsString::from).collect();
        assert_eq!(features(name, &args, None), expected.into_iter().collect::<Vec<_>>(), "{args:?}");
    }

    #[test]
    fn the_device_decides_the_feature() {
        check("train", "", None);
        check("train", "--steps 10 --device cuda", Some("cuda"));
        check("train", "--device=vulkan --steps 10", Some("vulkan"));
        check("train", "--device cuda:0 --steps 10", Some("cuda"));
        check("train", "--device=Vulkan:1", Some("vulkan"));
        check("train", "--device flex", None);
        check("train", "--device cudart", None);
        check("train", "--device cuda:1,FLEX,vulkan", ["vulkan", "cuda"]);
        check("train", "--device cuda:0,cuda:1", Some("cuda"));
        check("train", "--data vulkan --device", None);
        check("plan", "--set device=cuda", Some("cuda"));
        check("plan", "--set=device=\"vulkan:1\" --set seed=1", Some("vulkan"));
        check("plan", "--set device=cuda --device flex", None);
    }

    #[test]
    fn a_device_in_the_environment_decides_where_no_flag_does() {
        let of = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            features("train", &args, Some("cuda:1, cuda:0".as_ref()))
        };
        assert_eq!(of(&[]), ["cuda"]);
        assert_eq!(of(&["--device", "flex"]), [""; 0]);
        assert_eq!(of(&["--device", "flex, Vulkan:1"]), ["vulkan"]);
    }

    #[test]
    fn a_device_in_a_file_or_in_a_run_that_goes_on_decides() {
        let folder = env::temp_dir().join(format!("plimsoll-xtask-{}", std::process::id()));
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("config.toml"), "# Where.\njob = \"sr\"\ndevice = \"vulkan:0\" # here\n[memory]\n").unwrap();
        let mine = folder.join("mine.toml");
        fs::write(&mine, "[device]\ndevice = 'cuda'\n").unwrap();
        check("train", &format!("--out {} --resume", run.display()), Some("vulkan"));
        check("train", &format!("--out {}", run.display()), None);
        check("generate", &format!("{} --prompt A", run.display()), Some("vulkan"));
        check("train", &format!("--config {}", mine.display()), None);
        fs::write(&mine, "device='cuda'\n").unwrap();
        check("train", &format!("--config {} --out {} --resume", mine.display(), run.display()), Some("cuda"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_command_of_the_program_is_a_task() {
        let source = include_str!("../../crates/cli/src/args.rs");
        let (_, body) = source.split_once("enum Command {\n").unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        let variant = |line: &str| {
            let name = line.strip_prefix("    ").filter(|it| it.starts_with(|c: char| c.is_ascii_uppercase()))?;
            let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
            let kebab =
                |c: char| if c.is_ascii_uppercase() { format!("-{}", c.to_ascii_lowercase()) } else { c.into() };
            Some(name.chars().map(kebab).collect::<String>().trim_start_matches('-').to_owned())
        };
        let commands: Vec<_> = body.lines().filter_map(variant).collect();
        assert!(commands.contains(&"plan-batches".to_owned()), "{commands:?}");
        for command in commands {
            assert!(COMMANDS.contains(&command.as_str()) || command == "replay", "`cargo xtask {command}` is missing");
            assert!(HELP.contains(&command) || command == "replay", "the help lacks {command}");
        }
    }
}
