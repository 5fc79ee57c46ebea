//! One run, and what is kept of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::recorded;
use crate::redact::{redacted, steadied, without_clocks};

/// What of a run is held against what was accepted: the log first, because the rest follows from it.
const FILES: [&str; 5] =
    ["events.jsonl", "training_report.json", "training_report.md", "batch_metrics.json", "epoch_metrics.json"];

/// Variables that put colours into help texts.
const COLOURS: [&str; 2] = ["CLICOLOR_FORCE", "CLICOLOR"];

/// What a line begins with, or has in it, that is told by the clock, or is in the log.
const FLEETING: [&str; 6] = ["loading ", "planning ", "finding ", "training    step ", " · ", ", baseline "];

/// Super-resolution in seconds, with knobs to turn.
pub(crate) const SR: [&str; 10] = [
    "sr.channels=4",
    "sr.blocks=1",
    "sr.crops_per_image=4",
    "sr.validation_tile=32",
    "batch.effective_batch_size=16",
    "batch.patch_min=16",
    "batch.patch_max=32",
    "batch.batch_min=2",
    "batch.batch_max=16",
    "train.warm_up_steps=4",
];

/// The program that ships.
pub(crate) const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The same in the hands of these tests.
const FAULTY: &str = env!("CARGO_BIN_EXE_plimsoll-faulty");

/// Returns a program with the simulated device and one thread, whatever the environment wants of it and the processor has.
fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    let wishes = std::env::vars_os().map(|it| it.0).filter(|it| it.to_string_lossy().starts_with("PLIMSOLL_"));
    for wish in wishes.chain(COLOURS.map(Into::into)) {
        command.env_remove(wish);
    }
    command.args(args).env("PLIMSOLL_SIMULATED", "1").env("RAYON_NUM_THREADS", "1");
    command
}

/// A training.
pub(crate) struct Run {
    name: &'static str,
    folder: TempDir,
    command: Command,
}

impl Run {
    /// Describes a training of a job by its flags and values; `name` is that of its snapshots.
    pub(crate) fn new(name: &'static str, job: &str, capacity: &str, steps: u32, sets: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(FAULTY, &["train", "--job", job, "--capacity", capacity, "--seed", "1"]);
        command.args(["--steps", &steps.to_string(), "--set", "train.validate_every=8"]);
        // By itself it would follow what the disk has free.
        command.args(["--set", "data.store_limit=64MiB"]);
        command.args(sets.iter().flat_map(|it| ["--set", it])).arg("--out").arg(folder.path().join("run"));
        Self { name, folder, command }
    }

    /// Runs in one process, where nothing is to die.
    pub(crate) fn alone(mut self) -> Self {
        self.command.arg("--no-supervise");
        self
    }

    /// Runs under these faults, in JSON; a kill finds every checkpoint whole that the log tells of.
    pub(crate) fn under(mut self, faults: &serde_json::Value) -> Self {
        let used = self.folder.path().join("used");
        let unfinished = self.folder.path().join("run/checkpoints/unfinished");
        let faults = serde_json::json!({ "used": used, "unfinished": unfinished, "faults": faults });
        self.command.env("PLIMSOLL_FAULTS", faults.to_string());
        self
    }

    /// Runs to the end, and holds every file against what was accepted.
    #[track_caller]
    pub(crate) fn check(mut self) {
        let output = self.command.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        let out = self.folder.path().join("run");
        let log = out.join("events.jsonl");
        assert!(replays(&log), "{}: the decisions of its log are others in a replay", self.name);
        self.record(&log);
        for file in FILES {
            let text = fs::read_to_string(out.join(file)).unwrap();
            self.check_text(file, &text);
        }
        let told = String::from_utf8_lossy(&output.stderr);
        let lasting: Vec<_> = told.lines().filter(|line| !FLEETING.iter().any(|it| line.contains(it))).collect();
        self.check_text("stderr", &lasting.join("\n"));
    }

    fn check_text(&self, file: &str, text: &str) {
        check_text(&format!("{}.{file}", self.name), &text.replace(&*self.folder.path().to_string_lossy(), "[folder]"));
    }

    /// Holds the log against the recorded one of this name, where there is one.
    fn record(&self, log: &Path) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/logs");
        let (path, log) = (folder.join(self.name).with_extension("jsonl"), fs::read_to_string(log).unwrap());
        let Ok(known) = fs::read_to_string(&path) else { return };
        recorded::check(self.name, &log);
        if redacted(&known).lines().eq(steadied(&redacted(&log), &redacted(&known)).lines()) && replays(&path) {
            return;
        }
        let accepts = std::env::var("INSTA_UPDATE").is_ok_and(|it| it == "always");
        assert!(accepts, "{}: the log in {} is another, or has other decisions in a replay", self.name, path.display());
        fs::write(path, without_clocks(&log)).unwrap();
    }
}

fn replays(log: &Path) -> bool {
    command(PLIMSOLL, &["replay"]).arg(log).output().unwrap().status.success()
}

/// Returns what a command that succeeds prints on the simulated device.
#[track_caller]
pub(crate) fn simulated(args: &[&str]) -> String {
    printed(FAULTY, args)
}

/// Returns what a command of this program prints that succeeds.
#[track_caller]
pub(crate) fn printed(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(program, args).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).replace(program, "plimsoll")
}

/// Holds a text against what was accepted under this name.
pub(crate) fn check_text(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let text = redacted(text);
    let text = accepted(name).map_or(text.clone(), |accepted| steadied(&text, &accepted));
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Returns what was accepted.
fn accepted(name: &str) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/logs/snapshots");
    let snapshot = fs::read_to_string(folder.join(format!("{name}.snap"))).ok()?;
    let (_, content) = snapshot.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(content.to_owned())
}
