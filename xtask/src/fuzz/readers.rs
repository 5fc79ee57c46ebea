//! The readers that take Burn to build: their tests, for longer than in a test.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::Asked;
use crate::check::tests;
use crate::process::run as run_command;

/// A folder in memory: readers of files are fuzzed many times faster there.
const IN_MEMORY: &str = "/dev/shm";

/// Fuzzes all of them; what each has seen lies in `figures` afterwards.
pub(super) fn run(asked: Asked) -> anyhow::Result<()> {
    let mut command = tests();
    command.args(["--lib", "--", "--test-threads=1", "fuzz::readers::"]);
    command.env("PLIMSOLL_FUZZ_SECONDS", asked.seconds.to_string()).env("PLIMSOLL_FUZZ_SEED", asked.seed.to_string());
    if Path::new(IN_MEMORY).is_dir() {
        command.env("TMPDIR", IN_MEMORY);
    }
    run_command(command)
}

/// Returns what each reader has written, by name; one that failed has written nothing.
pub(super) fn gather(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    paths.sort();
    let read = |path: &PathBuf| -> anyhow::Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    paths.iter().map(|path| read(path).with_context(|| format!("failed to read {}", path.display()))).collect()
}

pub(super) fn table(readers: &[Value]) -> anyhow::Result<String> {
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
}
