//! `cargo xtask fuzz`: damaged input for every reader.

use std::ffi::OsString;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::args::{flags, unknown};
use crate::files::write_whole;
use crate::process::{Stop, root};

mod guided;
mod readers;

pub(crate) use self::guided::corpus;

pub(crate) const HELP: &str = "\
fuzz [--seconds N] [--seed S] [--quick]
    Damages valid input of every reader for N seconds each (default: 30) and writes target/bench/fuzz.json: an input
    may be refused, but none may panic, hang, or hold more than 64 MiB. First the targets in fuzz/, which libFuzzer leads to
    code that no input has reached (what it finds on the way is kept in target/fuzz-corpus for the next run); they take a C++
    compiler. Then the readers that take Burn to build, where 2 s of processor time are a hang. What fails lies in
    target/fuzz/, or, where it ended the program of such a reader, under plimsoll-fuzz-READER.bin in the folder for
    temporary files.
    Without --seed each run tries other inputs; the seed is printed. --quick leaves out what takes Burn to build.
";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// For each target and reader.
    seconds: u64,
    seed: u64,
    quick: bool,
}

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let asked = asked(args, now)?;
    let (figures, out) = (root().join("target/fuzz"), root().join("target/bench/fuzz.json"));
    if figures.exists() {
        fs::remove_dir_all(&figures).with_context(|| format!("failed to delete {}", figures.display()))?;
    }
    println!("{} s for each reader, seed {}", asked.seconds, asked.seed);
    let targets = guided::run(asked, &figures)?;
    let ran = if asked.quick { Ok(()) } else { readers::run(asked) };
    let readers = readers::gather(&figures)?;
    let passed = ran.is_ok() && targets.iter().all(|it| it["passed"] == true);
    let report = serde_json::json!({
        "seconds_each": asked.seconds, "seed": asked.seed, "passed": passed, "targets": targets, "readers": readers,
    });
    write_whole(&out, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    print!("{}", guided::table(&targets)?);
    if !asked.quick {
        print!("{}", readers::table(&readers)?);
    }
    println!("{}", out.display());
    ran.and(if passed { Ok(()) } else { Err(Stop::Child { code: 1 }.into()) })
}

fn asked(args: &[OsString], now: u64) -> Result<Asked, Stop> {
    let mut asked = Asked { seconds: 30, seed: now, quick: false };
    flags(args, "`fuzz` takes nothing but --seconds N, --seed S and --quick", |flag, value| match flag {
        "seconds" => value.number().map(|it| asked.seconds = it),
        "seed" => value.number().map(|it| asked.seed = it),
        "quick" => {
            asked.quick = true;
            Ok(())
        }
        _ => unknown(),
    })?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_seed_are_numbers() {
        let parse = |args: &[&str]| asked(&args.iter().map(OsString::from).collect::<Vec<_>>(), 5).ok();
        assert_eq!(parse(&[]), Some(Asked { seconds: 30, seed: 5, quick: false }));
        let all = Asked { seconds: 600, seed: 7, quick: true };
        assert_eq!(parse(&["--seed", "7", "--quick", "--seconds", "600"]), Some(all));
        for wrong in [&["--seconds"] as &[_], &["--seconds", "long"], &["--fast", "1"]] {
            assert_eq!(parse(wrong), None);
        }
    }
}
