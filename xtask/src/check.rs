//! `cargo xtask check`: everything that a change must pass.

use std::env;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;
use std::time::Instant;

use crate::process::{Stop, cargo, run as run_command};
use crate::{chaos, circles, docs, fuzz, layers, networks, readmes, side_by_side, tidy, vulkan};

pub(crate) const HELP: &str = "\
check [--quick | --cuda]
    Formatting, layers, circles, clippy, docs and tests, which Clippy lints as they are built, up to the first failure; then a
    short chaos, and what libFuzzer has found before, where a C++ compiler builds it. The golden runs of `logs` are among the
    tests. Where `mpicc` is found, what runs in several processes is tested too.
    --quick  leaves out all that takes Burn to build, what probes NVIDIA devices and what draws PNG files, and tries a
             quarter of the random cases
    --cuda   has Clippy and docs with what needs an NVIDIA GPU to run, too; takes minutes the first time
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    let start = Instant::now();
    match args {
        [] => whole(false),
        [flag] if flag == "--cuda" => whole(true),
        [flag] if flag == "--quick" => quick(),
        _ => return Err(Stop::Usage("`check` takes nothing but --quick or --cuda".to_owned()).into()),
    }?;
    println!("all passed after {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Checks what takes no Burn to build: the default members of the workspace, without their features, and the rules for all
/// of it.
///
/// What reads NVIDIA's libraries, and what draws PNG files, would be a quarter of the build: the whole check has both.
fn quick() -> anyhow::Result<()> {
    rules()?;
    step("core clippy and tests", || {
        let command = |what: &[&str]| {
            let mut tests = cargo("test --no-default-features");
            tests.args(what).envs(networks::LINTED);
            for (variable, value) in [(CASES, FEW), (INCREMENTAL, "0")] {
                if env::var_os(variable).is_none() {
                    tests.env(variable, value);
                }
            }
            tests
        };
        side_by_side::run(command(&["--lib", "--bins", "--tests", "--examples"]))?;
        run_command(command(&["--doc"]))
    })
}

/// The variable that says how many random cases a property is tried with, and how many the quick check tries: a quarter of
/// proptest's own 256. Properties that name a number of their own follow in proportion.
const CASES: &str = "PROPTEST_CASES";
const FEW: &str = "64";

/// The variable that says whether a build prepares for the next: without, `plimsoll-finder` and its tests took 5.3 s of
/// processor time to build in place of 7.2 s, and crates that have not changed are kept all the same.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// The variable that says whether errors note where they were made; panics do all the same. Where `RUST_BACKTRACE` is set, as
/// many who test have it, what makes kernels notes that of each attempt that it drops again: a test on a software device took
/// 62.5 s without, in place of 68.1 s.
const BACKTRACES: &str = "RUST_LIB_BACKTRACE";

fn whole(with_cuda: bool) -> anyhow::Result<()> {
    let checked = if with_cuda { Checked::with_cuda() } else { Checked::here() };
    rules()?;
    // Warnings are denied here and not in RUSTFLAGS, whose every change would build all dependencies again.
    step("clippy", || {
        let before = format!("clippy --workspace {}", checked.targets);
        run_command(checked.cargo(&before, "-- -D warnings"))
    })?;
    step("docs", || {
        let mut command = checked.cargo("doc --workspace --no-deps", "");
        command.env("RUSTDOCFLAGS", "-D warnings");
        run_command(command)
    })?;
    step("tests", || {
        let (mut examples, mut programs, mut examples_of_docs) =
            (networks::command("build"), tests(), networks::command("test"));
        // Those that a test runs as programs of their own.
        examples.args(ADOPTED.iter().flat_map(|name| ["--example", name]));
        run_command(examples)?;
        programs.args(["--lib", "--bins", "--tests"]);
        side_by_side::run(programs)?;
        examples_of_docs.arg("--doc");
        run_command(examples_of_docs)
    })?;
    // Rounds of chaos leave a third of two cores idle.
    step("chaos and fuzz", || {
        thread::scope(|scope| {
            let rounds = scope.spawn(chaos::short);
            let corpus = fuzz::corpus();
            rounds.join().unwrap_or_else(|panic| resume_unwind(panic)).and(corpus)
        })
    })
}

/// What `crates/plimsoll/examples` has in pairs, with this ending and without it.
const ADOPTED: [&str; 8] = ["*_adopted", "find", "gan", "image", "image_learner", "plan", "regression", "text"];

/// What Clippy sees by itself: tests are linted as they are built; benchmarks, and most examples, are built by no step.
const BUILT_BY_NO_TEST: &str = "--lib --bins --examples --bench *";

/// What all crates are type-checked with, and what else that takes.
struct Checked {
    features: Vec<&'static str>,
    targets: &'static str,
    variables: &'static [(&'static str, &'static str)],
}

impl Checked {
    /// What tests have on a CPU, and benchmarks.
    ///
    /// Not `autotune`: it switches code of Burn on, and what these crates make of it is compiled without it too.
    fn here() -> Self {
        let mut features =
            vec![networks::FEATURES, networks::ALSO_TESTED, "plimsoll-bench/criterion,plimsoll-bench/crops"];
        if networks::has_mpi() {
            features.push("plimsoll-cli/mpi,plimsoll-proof/mpi,plimsoll-fleet/mpi");
        }
        Self { features, targets: BUILT_BY_NO_TEST, variables: &[] }
    }

    /// With what needs an NVIDIA GPU to run, too, and Vulkan with its tests where these are not built for the want of a driver.
    ///
    /// Linking `cuda` takes LLVM, which a build script downloads; under `DOCS_RS` it does not, and a type check links nothing.
    /// The version of CUDA's bindings is named because there need not be a toolkit to ask for it.
    fn with_cuda() -> Self {
        let Self { mut features, mut targets, .. } = Self::here();
        if vulkan::find().is_none() {
            features.push("plimsoll-probe/vulkan,plimsoll/vulkan,plimsoll-cli/vulkan,plimsoll-proof/vulkan");
            targets = "--all-targets";
        }
        features.push("plimsoll-probe/cuda,plimsoll/cuda,plimsoll-cli/cuda,plimsoll-cli/nccl,plimsoll-proof/cuda");
        Self { features, targets, variables: &[("DOCS_RS", "1"), ("CUDARC_CUDA_VERSION", "13000")] }
    }

    /// In the profile of the tests, so that build scripts and macros are built once for both.
    fn cargo(&self, before: &str, after: &str) -> Command {
        let mut command = cargo(before);
        let features = self.features.join(",");
        command.args(["--profile", &networks::profile(), "--no-default-features", "--features", &features]);
        command.args(after.split_whitespace()).envs(self.variables.iter().copied());
        command
    }
}

/// Checks what needs no build.
fn rules() -> anyhow::Result<()> {
    step("fmt", || {
        run_command(cargo("fmt --all --check"))?;
        run_command(cargo("fmt --manifest-path fuzz/Cargo.toml --check"))
    })?;
    step("layers", layers::check)?;
    step("circles", circles::check)?;
    step("tidy", tidy::check)?;
    step("readmes", readmes::check)?;
    step("book", docs::check)
}

fn step(name: &str, action: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("── {name}");
    let start = Instant::now();
    let result = action();
    let outcome = if result.is_ok() { "passed" } else { "FAILED" };
    println!("── {name} {outcome} after {:.1} s\n", start.elapsed().as_secs_f64());
    result
}

/// Returns cargo that tests everything, golden runs included.
///
/// Where a Vulkan driver is found the tests of that device run too, and where `mpicc` is found those of several processes;
/// elsewhere each says why it is skipped.
pub(crate) fn tests() -> Command {
    if vulkan::find().is_none() {
        println!("no Vulkan driver was found: the tests of that device are left out");
    }
    if !networks::has_mpi() {
        println!("no mpicc was found: what needs MPI is left out");
    }
    let mut command = networks::command("test");
    if env::var_os("RAYON_NUM_THREADS").is_none() {
        // What each thread keeps for itself would be most of the small budgets of tests on a processor with many.
        command.env("RAYON_NUM_THREADS", "2");
    }
    if env::var_os(BACKTRACES).is_none() {
        command.env(BACKTRACES, "0");
    }
    command
}
