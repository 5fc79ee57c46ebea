//! `cargo xtask bench`: the benchmarks, and what Plimsoll costs inside a real run.

mod all;
mod comparison;
mod figures;
mod gather;
mod overhead;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::args::{flags, unknown};
use crate::networks;
use crate::process::{Stop, cargo, root, run as run_command};
use crate::proof::proof;

pub(crate) const HELP: &str = "\
bench [NAME]
    Runs the benchmarks of hot paths, or the one of that name (`prediction`, `policy`, ..). `crops` takes Burn to build, and
    runs by its name alone.
bench all [--compare BASE.json [--above RATIO] [--now FILE.json]]
    Runs the benchmarks of hot paths, `sampler` and `recovery`, and writes target/bench/all.json: a median with its unit for
    each, the machine and the versions. Says what is more than RATIO (default: 1.1) times what it was in BASE.json, such a
    file of before, the worst first, and what one of both lacks; if anything is, the exit code is 3. With --now that file is
    compared, and nothing is run. What takes Burn to build is left out.
bench overhead
    Trains 200 steps of the default configuration and writes target/bench/overhead.json.
bench sampler [--lengths DIR]
    Plans epochs of up to 10 million samples, beside the rules of other tools, says which of its targets are met, and writes
    target/bench/sampler.json; lengths of real data are read from DIR, or else from ../shared/data/lengths if that is there.
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

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let mut command = cargo("bench --package plimsoll-bench");
    match args {
        [] => run_command(command),
        [name, rest @ ..] if name == "all" => all::run(rest),
        [name, rest @ ..] if name == "predict" => predict(rest),
        [name, rest @ ..] if name == "finder" => run_command(report("finder", rest)?),
        [name, rest @ ..] if name == "end-to-end" => end_to_end(rest),
        [name] if name == "overhead" => overhead::run(),
        [name, rest @ ..] if name == "sampler" => sampler(rest),
        [name, rest @ ..] if name == "recovery" => recovery(rest),
        [name, rest @ ..] if name == "scaling" => scaling(rest),
        [name] => {
            if name == "crops" {
                command.args(["--features", "crops"]);
            }
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

fn sampler(args: &[OsString]) -> anyhow::Result<()> {
    let mut lengths = Some(root().join("../shared/data/lengths")).filter(|it| it.is_dir());
    flags(args, "`bench sampler` takes nothing but --lengths DIR", |flag, value| match flag {
        "lengths" => value.path().map(|it| lengths = Some(it)),
        _ => unknown(),
    })?;
    if lengths.is_none() {
        println!("no lengths of real data, generated ones only");
    }
    let out = root().join("target/bench/sampler.json");
    let mut command = cargo("run --release --package plimsoll-proof --bin sampler --");
    command.arg(&out).args(lengths);
    run_command(command)?;
    println!("{}", out.display());
    Ok(())
}

fn recovery(args: &[OsString]) -> anyhow::Result<()> {
    let out = root().join("target/bench/recovery.json");
    let mut command = cargo("run --release --package plimsoll-proof --bin recovery --");
    command.arg(&out).args(args);
    run_command(command)?;
    println!("{}", out.display());
    Ok(())
}

fn scaling(args: &[OsString]) -> anyhow::Result<()> {
    let mut lengths = root().join("../shared/data/lengths");
    let mut events = Vec::new();
    flags(args, "`bench scaling` takes nothing but --lengths DIR and --events FILE", |flag, value| match flag {
        "lengths" => value.path().map(|it| lengths = it),
        "events" => value.path().map(|it| events.push(it)),
        _ => unknown(),
    })?;
    if events.is_empty() {
        events = TIMED_RUNS.into_iter().map(timed_run).collect::<anyhow::Result<_>>()?;
    }
    let out = root().join("target/bench/scaling.json");
    let features: &[&str] = if networks::has_mpi() { &["--features", "mpi"] } else { &[] };
    let mut command = cargo("run --release --package plimsoll-proof --bin scaling");
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
    flags(
        args,
        "`bench end-to-end` takes nothing but --data-text DIR and --data-sequence DIR",
        |flag, value| match flag {
            "data-text" => value.path().map(|it| text = it),
            "data-sequence" => value.path().map(|it| sequence = it),
            _ => unknown(),
        },
    )?;
    println!("text of {}, recordings of {}", text.display(), sequence.display());
    let out = root().join("target/bench/end-to-end.json");
    run_command(proof(networks::shipped("build"), "end-to-end", &out, &[text.into(), sequence.into()])?)
}

/// Returns the folder of a data pack, or of the fixtures of a job where there is none.
fn data(pack: &str, job: &str) -> PathBuf {
    let pack = root().join("../shared/data").join(pack);
    if pack.is_dir() { pack } else { root().join("fixtures").join(job) }
}
