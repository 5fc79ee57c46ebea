//! The targets of libFuzzer in `fuzz/`, on the stable tool chain.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Asked;
use crate::process::{cargo, root, run as run_command, said};

/// What `cargo fuzz` passes with `--sanitizer none`: counters at every edge, and what is compared with what.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg=fuzzing";

/// An input is a hang after so many seconds of the clock, however busy the machine is; the program holds its corpus beside
/// what an input may take; and longer inputs only cost time.
const LIMITS: [&str; 3] = ["-timeout=20", "-rss_limit_mb=1024", "-max_len=65536"];

/// Fuzzes each target, and returns what came of it; what fails is left in `findings`.
pub(super) fn run(asked: Asked, findings: &Path) -> anyhow::Result<Vec<Value>> {
    fs::create_dir_all(findings).with_context(|| format!("failed to make {}", findings.display()))?;
    let programs = build()?;
    let results = programs.iter().map(|(name, program)| {
        let kept = root().join("target/fuzz-corpus").join(name);
        fs::create_dir_all(&kept).with_context(|| format!("failed to make {}", kept.display()))?;
        let mut command = Command::new(program);
        command.arg(kept).arg(committed(name)).args(LIMITS).arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/{name}-", findings.display()));
        // libFuzzer takes 32 bits, and 0 for another seed each time; no time is without end.
        command.arg(format!("-seed={}", 1 + asked.seed % u64::from(u32::MAX - 1)));
        command.arg(if asked.seconds == 0 {
            "-runs=0".to_owned()
        } else {
            format!("-max_total_time={}", asked.seconds)
        });
        result(name, command)
    });
    results.collect()
}

/// Reads the committed inputs of each target once, where there is a C++ compiler to build libFuzzer.
pub(crate) fn corpus() -> anyhow::Result<()> {
    if said("c++", &["--version"]).is_none() {
        println!("no C++ compiler was found: what libFuzzer has found is left out");
        return Ok(());
    }
    for (name, program) in build()? {
        let mut command = Command::new(program);
        command.arg(committed(&name)).args(LIMITS).arg("-runs=0");
        let result = result(&name, command)?;
        ensure!(result["passed"] == true, "target `{name}` fails on an input of {}", committed(&name).display());
    }
    Ok(())
}

/// Returns the folder of the inputs of a target that everybody has.
fn committed(name: &str) -> PathBuf {
    root().join("fuzz/corpus").join(name)
}

/// Builds all targets, and returns their names and programs.
fn build() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let triple = said("rustc", &["--print", "host-tuple"]).context("failed to ask rustc for its host")?;
    let mut command = cargo("build --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzzing");
    // With a target named, build scripts and macros of the compiler are built without.
    command.args(["--target", &triple]).env("RUSTFLAGS", COVERAGE);
    run_command(command)?;
    let folder = root().join("target/fuzzing").join(triple).join("release");
    let program = |name: String| (name.clone(), folder.join(name));
    Ok(names()?.into_iter().map(program).collect())
}

fn names() -> anyhow::Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let stem = |path: PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut names = files.map(|file| Ok(stem(file?.path()))).collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Runs a target to its end, and returns what it says of itself; shows all of it where an input fails.
fn result(name: &str, mut command: Command) -> anyhow::Result<Value> {
    let output = command.output().with_context(|| format!("failed to start {command:?}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{told}\ntarget `{name}` fails; the file that is named last has the input: {command:?}");
    }
    let covered = told.lines().filter_map(|line| after(line, "cov: ")).next_back();
    Ok(json!({
        "target": name,
        "passed": output.status.success(),
        "inputs": statistic(&told, "number_of_executed_units"),
        "covered_edges": covered,
        "new_inputs": statistic(&told, "new_units_added"),
        "slowest_s": statistic(&told, "slowest_unit_time_sec"),
        "peak_mib": statistic(&told, "peak_rss_mb"),
    }))
}

fn statistic(told: &str, name: &str) -> Option<u64> {
    told.lines().find_map(|line| after(line, &format!("stat::{name}:")))
}

/// Returns the number that follows a word.
fn after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

/// Returns a row for each target; of one that failed, without what it did not come to say.
pub(super) fn table(targets: &[Value]) -> anyhow::Result<String> {
    let mut table = String::from("target            inputs  edges covered  new inputs  slowest s  peak MiB\n");
    for it in targets {
        let number = |key: &str| it[key].as_u64().map_or_else(|| "-".to_owned(), |it| it.to_string());
        let (name, inputs, covered) = (it["target"].as_str().unwrap_or("?"), number("inputs"), number("covered_edges"));
        let (new, slowest, peak) = (number("new_inputs"), number("slowest_s"), number("peak_mib"));
        writeln!(table, "{name:<14}{inputs:>10}{covered:>15}{new:>12}{slowest:>11}{peak:>10}")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
#2	INITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 26Mb
#9000	DONE   cov: 345 ft: 600 corp: 40/2Kb lim: 21 exec/s: 900 rss: 40Mb
stat::number_of_executed_units: 9000
stat::average_exec_per_sec:     900
stat::new_units_added:          39
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              40";

    #[cfg(unix)]
    #[test]
    fn a_target_says_what_it_was_given_and_one_that_fails_is_told_apart() {
        let run = |code: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", "printf '%s' \"$1\" >&2; exit $2", "sh", TOLD, code]);
            result("log", command).unwrap()
        };
        let rows = table(&[run("0")]).unwrap();
        assert_eq!(
            rows.lines().last(),
            Some("log                 9000            345          39          0        40")
        );
        assert!(run("0")["passed"] == true && run("77")["passed"] == false);
    }

    #[test]
    fn what_a_target_did_not_come_to_say_is_no_number() {
        let rows = table(&[json!({ "target": "log", "passed": false, "covered_edges": 3 })]).unwrap();
        assert_eq!(
            rows.lines().last(),
            Some("log                    -              3           -          -         -")
        );
    }

    #[test]
    fn every_target_is_built_and_has_inputs_to_begin_with() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        let names = names().unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), names.len());
        for name in names {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
            let n = fs::read_dir(committed(&name)).map_or(0, Iterator::count);
            assert!(0 < n, "{name} has no inputs in {}", committed(&name).display());
        }
    }
}
