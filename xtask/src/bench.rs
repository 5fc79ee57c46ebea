//! `cargo xtask bench`: the benchmarks, and what Plimsoll costs inside a real run.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{self, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::networks;
use crate::process::{Stop, cargo, root, run as run_command};
use crate::proof::proof;

pub(crate) const HELP: &str = "\
bench [NAME]
    Runs the benchmarks of hot paths, or the one of that name (`prediction`, `policy`, ..).
bench overhead
    Trains 200 steps of the default configuration and writes target/bench/overhead.json.
bench sampler [--lengths DIR]
    Plans epochs of up to 10 million samples and writes target/bench/sampler.json; lengths of real data are read from
    DIR, or else from ../shared/data/lengths if that is there.
bench recovery [STEPS]
    Simulates a million steps of each policy under disturbances that come and go, and writes target/bench/recovery.json.
bench scaling [--lengths DIR] [--events FILE]..
    Divides steps among up to 1024 simulated devices and writes target/bench/scaling.json: what a step takes is learnt from
    four short runs of `text`, or from the logs that are named; lengths are read from DIR, or else from
    ../shared/data/lengths. Where `mpicc` is found, ranks that are processes are measured too. Takes a few minutes.
bench predict [--cuda] [--device DEVICE].. [--job JOB].. [--data FOLDER] [--cells N]
    Holds plans against real steps, each cell in a fresh process, and writes target/bench/predict.json and predict.md: of
    the four jobs, whose data lie in FOLDER (fixtures/ by default), and of four models that nobody tunes (unet, batch-norm,
    lstm, vit), with and without gradient checkpointing. Fails when all is written where a target is missed. On a software
    Vulkan device all of it takes hours, and N cells of each less.
bench finder [--cuda] [--device DEVICE]..
    Compares the finder with the search rules of other tools and writes target/bench/finder.json.
    Both run on every device at hand, or on each --device (flex, vulkan, cuda); `gpu-check --help` says how Vulkan and
    CUDA are built in.
bench end-to-end [--data-text DIR] [--data-sequence DIR]
    Trains with planned batches and with batches drawn at random, at one capacity, and writes
    target/bench/end-to-end.json; the data are read from there, or else from ../shared/data/text-docs and
    ../shared/data/seq-fsdd if they are there, or else from fixtures. Takes some ten minutes on two idle cores.
    What runs networks is built as it ships; PLIMSOLL_PROFILE=ci shares the build of `check` instead, whose own crates are
    slower.
";

const PARTS: [&str; 7] = ["probe", "predict", "policy", "guard", "sampler", "monitor", "total"];

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let mut command = cargo("bench --package plimsoll-bench");
    match args {
        [] => run_command(command),
        [name, rest @ ..] if name == "predict" => predict(rest),
        [name, rest @ ..] if name == "finder" => run_command(report("finder", rest)?),
        [name, rest @ ..] if name == "end-to-end" => end_to_end(rest),
        [name] if name == "overhead" => overhead(),
        [name, rest @ ..] if name == "sampler" => sampler(rest),
        [name, rest @ ..] if name == "recovery" => recovery(rest),
        [name, rest @ ..] if name == "scaling" => scaling(rest),
        [name] => {
            command.arg("--bench").arg(name);
            run_command(command)
        }
        _ => Err(Stop::Usage("`bench` takes one name at most".to_owned()).into()),
    }
}

/// Returns a command that writes the report of that name.
fn report(name: &str, args: &[OsString]) -> anyhow::Result<Command> {
    proof(networks::shipped("build"), name, &root().join(format!("target/bench/{name}.json")), args)
}

fn predict(args: &[OsString]) -> anyhow::Result<()> {
    let mut command = report("predict", args)?;
    if !args.iter().any(|it| it == "--data") {
        command.arg("--data").arg(root().join("fixtures"));
    }
    run_command(command)
}

fn overhead() -> anyhow::Result<()> {
    let folder = root().join("target/bench");
    let out = folder.join("overhead-run");
    let mut command = Command::new(networks::shipped_program("plimsoll")?);
    command.args(["train", "--steps", "200", "--overwrite", "--out"]).arg(&out).current_dir(root());
    fs::create_dir_all(&folder)?;
    run_command(command)?;

    let measured = out.join("overhead.json");
    let json = fs::read(&measured).with_context(|| format!("failed to read {}", measured.display()))?;
    let table = table(&serde_json::from_slice(&json)?)?;
    // Whole, as it was in the run directory, and beside the other reports.
    let published = folder.join("overhead.json");
    fs::rename(&measured, &published)?;
    println!("{table}{}", published.display());
    Ok(())
}

fn sampler(args: &[OsString]) -> anyhow::Result<()> {
    let default = root().join("../shared/data/lengths");
    let lengths = match args {
        [] if default.is_dir() => Some(default),
        [] => None,
        [flag, folder] if flag == "--lengths" => Some(path::absolute(folder)?),
        _ => return Err(Stop::Usage("`bench sampler` takes nothing but --lengths DIR".to_owned()).into()),
    };
    if lengths.is_none() {
        println!("no lengths of real data, generated ones only");
    }
    let out = root().join("target/bench/sampler.json");
    let mut command = cargo("run --release --package plimsoll-bench --bin sampler --");
    command.arg(&out).args(lengths);
    run_command(command)?;
    println!("{}", out.display());
    Ok(())
}

fn recovery(args: &[OsString]) -> anyhow::Result<()> {
    let out = root().join("target/bench/recovery.json");
    let mut command = cargo("run --release --package plimsoll-bench --bin recovery --");
    command.arg(&out).args(args);
    run_command(command)?;
    println!("{}", out.display());
    Ok(())
}

fn scaling(args: &[OsString]) -> anyhow::Result<()> {
    let mut lengths = root().join("../shared/data/lengths");
    let mut events = Vec::new();
    for pair in args.chunks(2) {
        match pair {
            [flag, folder] if flag == "--lengths" => lengths = path::absolute(folder)?,
            [flag, file] if flag == "--events" => events.push(path::absolute(file)?),
            _ => {
                let usage = "`bench scaling` takes nothing but --lengths DIR and --events FILE";
                return Err(Stop::Usage(usage.to_owned()).into());
            }
        }
    }
    if events.is_empty() {
        events = TIMED_RUNS.into_iter().map(timed_run).collect::<anyhow::Result<_>>()?;
    }
    let out = root().join("target/bench/scaling.json");
    let features: &[&str] = if networks::has_mpi() { &["--features", "mpi"] } else { &[] };
    let mut command = cargo("run --release --package plimsoll-bench --bin scaling");
    command.args(features).arg("--").arg(&out).arg(lengths).args(events);
    run_command(command)?;
    println!("{}", out.display());
    Ok(())
}

/// Tokens of a step and samples of a micro-batch, by which what a step, a micro-batch and a token take are told apart.
const TIMED_RUNS: [[u32; 2]; 4] = [[1024, 4], [4096, 1], [4096, 4], [4096, 16]];

/// Trains `text` on one thread for 40 steps of that many tokens, and returns the log.
fn timed_run([tokens, samples]: [u32; 2]) -> anyhow::Result<PathBuf> {
    let out = root().join(format!("target/bench/scaling-{tokens}-{samples}"));
    let mut command = Command::new(networks::shipped_program("plimsoll")?);
    command.args(["train", "--job", "text", "--steps", "40", "--overwrite", "--out"]).arg(&out).current_dir(root());
    let sizes = [format!("batch.effective_batch_size={tokens}"), format!("batch.batch_size={samples}")];
    let others = ["train.replicas=1", "train.validate_every=40", "train.checkpoint_every=40"].map(str::to_owned);
    sizes.iter().chain(&others).for_each(|it| _ = command.args(["--set", it]));
    command.env("RAYON_NUM_THREADS", "1");
    run_command(command)?;
    Ok(out.join("events.jsonl"))
}

fn end_to_end(args: &[OsString]) -> anyhow::Result<()> {
    let mut text = data("text-docs", "text");
    let mut sequence = data("seq-fsdd", "sequence");
    for pair in args.chunks(2) {
        match pair {
            [flag, folder] if flag == "--data-text" => text = path::absolute(folder)?,
            [flag, folder] if flag == "--data-sequence" => sequence = path::absolute(folder)?,
            _ => {
                let usage = "`bench end-to-end` takes nothing but --data-text DIR and --data-sequence DIR";
                return Err(Stop::Usage(usage.to_owned()).into());
            }
        }
    }
    println!("text of {}, recordings of {}", text.display(), sequence.display());
    let out = root().join("target/bench/end-to-end.json");
    run_command(proof(networks::shipped("build"), "end-to-end", &out, &[text.into(), sequence.into()])?)
}

/// Returns the folder of a data pack, or of the fixtures of a job where there is none.
fn data(pack: &str, job: &str) -> PathBuf {
    let pack = root().join("../shared/data").join(pack);
    if pack.is_dir() { pack } else { root().join("fixtures").join(job) }
}

fn table(report: &Value) -> anyhow::Result<String> {
    let number = |pointer: &str| {
        report.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("overhead.json has no {pointer}"))
    };
    let mut table = format!("median of {} steps         µs  of the step\n", number("/steps")?);
    let step = number("/step_us")?;
    let mut row =
        |name: &str, micros: f64, ratio: f64| writeln!(table, "{name:<22} {micros:>9.1}  {:>9.3} %", 100.0 * ratio);
    for part in PARTS {
        let micros = number(&format!("/median_us/{part}"))?;
        row(part, micros, if part == "total" { number("/overhead_ratio")? } else { micros / step })?;
    }
    row("check before optimizer", number("/check_us")?, number("/check_ratio")?)?;
    row("step", step, 1.0)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_each_part_and_its_share() {
        let mut report = serde_json::json!({
            "steps": 200,
            "median_us": {"probe": 1.0, "predict": 8.0, "policy": 2.0, "guard": 0.5, "sampler": 20.0, "monitor": 10.25,
                "total": 41.75},
            "check_us": 500.0, "step_us": 100_000.0, "overhead_ratio": 0.000_417_5, "check_ratio": 0.005,
        });
        let expected = "\
median of 200 steps         µs  of the step
probe                        1.0      0.001 %
predict                      8.0      0.008 %
policy                       2.0      0.002 %
guard                        0.5      0.001 %
sampler                     20.0      0.020 %
monitor                     10.2      0.010 %
total                       41.8      0.042 %
check before optimizer     500.0      0.500 %
step                    100000.0    100.000 %
";
        assert_eq!(table(&report).unwrap(), expected);
        report["median_us"]["guard"] = Value::Null;
        assert_eq!(table(&report).unwrap_err().to_string(), "overhead.json has no /median_us/guard");
    }
}
