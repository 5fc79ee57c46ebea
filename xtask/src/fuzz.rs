//! `cargo xtask fuzz`: damaged input for every reader.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::Value;

use crate::check::job_tests;
use crate::files::write_whole;
use crate::process::{Stop, root, run as run_command};

pub(crate) const HELP: &str = "\
fuzz [--seconds N] [--seed S]
    Damages valid input of every reader for N seconds each (default: 30) and writes target/bench/fuzz.json: an input
    may be refused, but none may panic, take more than 2 s of processor time, or hold more than 64 MiB. What does lies in target/fuzz/, or,
    where it ended the program, under plimsoll-fuzz-READER.bin in the folder for temporary files.
    Without --seed each run tries other inputs; the seed is printed.
";

/// A folder in memory: readers of files are fuzzed many times faster there.
const IN_MEMORY: &str = "/dev/shm";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (seconds, seed) = options(args, now)?;
    let (figures, out) = (root().join("target/fuzz"), root().join("target/bench/fuzz.json"));
    if figures.exists() {
        fs::remove_dir_all(&figures).with_context(|| format!("failed to delete {}", figures.display()))?;
    }
    println!("{seconds} s for each reader, seed {seed}");
    let mut command = job_tests();
    command.args(["--lib", "--", "--test-threads=1", "fuzz::readers::"]);
    command.env("PLIMSOLL_FUZZ_SECONDS", seconds.to_string()).env("PLIMSOLL_FUZZ_SEED", seed.to_string());
    if Path::new(IN_MEMORY).is_dir() {
        command.env("TMPDIR", IN_MEMORY);
    }
    let ran = run_command(command);
    let readers = gather(&figures)?;
    let report =
        serde_json::json!({ "seconds_each": seconds, "seed": seed, "passed": ran.is_ok(), "readers": readers });
    write_whole(&out, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    println!("{}{}", table(&readers)?, out.display());
    ran
}

fn options(args: &[OsString], now: u64) -> anyhow::Result<(u64, u64)> {
    let usage = || Stop::Usage("`fuzz` takes nothing but --seconds N and --seed S".to_owned());
    let (mut seconds, mut seed) = (30, now);
    for pair in args.chunks(2) {
        let [flag, number] = pair else { return Err(usage().into()) };
        let number = number.to_str().and_then(|it| it.parse().ok()).ok_or_else(usage)?;
        match flag.to_str() {
            Some("--seconds") => seconds = number,
            Some("--seed") => seed = number,
            _ => return Err(usage().into()),
        }
    }
    Ok((seconds, seed))
}

/// Returns what each reader has written, by name; one that failed has written nothing.
fn gather(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    paths.sort();
    let read = |path: &PathBuf| -> anyhow::Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    paths.iter().map(|path| read(path).with_context(|| format!("failed to read {}", path.display()))).collect()
}

fn table(readers: &[Value]) -> anyhow::Result<String> {
    let mut table = String::from("reader            inputs  inputs/s  accepted  refused  worst ms  worst KiB\n");
    for reader in readers {
        let number = |key: &str| reader[key].as_f64().with_context(|| format!("{reader} has no {key}"));
        let (inputs, kib) = (number("inputs")?, number("worst_bytes")? / 1024.0);
        let (rate, name) = (inputs / number("seconds")?, reader["reader"].as_str().unwrap_or("?"));
        let (accepted, refused, worst) = (number("accepted")?, number("rejected")?, number("worst_ms")?);
        writeln!(table, "{name:<14}{inputs:>10}{rate:>10.0}{accepted:>10}{refused:>9}{worst:>10.1}{kib:>11.0}")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_what_a_reader_was_given_and_what_the_worst_input_cost() {
        let reader = serde_json::json!({
            "reader": "plan", "seconds": 30.0, "inputs": 60_000, "accepted": 45_000, "rejected": 15_000,
            "worst_ms": 12.34, "worst_bytes": 102_400
        });
        assert_eq!(
            table(&[reader]).unwrap().lines().last(),
            Some("plan               60000      2000     45000    15000      12.3        100")
        );
        assert!(table(&[serde_json::json!({ "reader": "plan" })]).is_err());
    }

    #[test]
    fn time_and_seed_are_numbers() {
        let parse = |args: &[&str]| options(&args.iter().map(OsString::from).collect::<Vec<_>>(), 5).ok();
        assert_eq!(parse(&[]), Some((30, 5)));
        assert_eq!(parse(&["--seed", "7", "--seconds", "600"]), Some((600, 7)));
        for wrong in [&["--seconds"] as &[_], &["--seconds", "long"], &["--fast", "1"]] {
            assert_eq!(parse(wrong), None);
        }
    }
}
