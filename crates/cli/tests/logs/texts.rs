//! What the program prints besides runs.

use crate::jobs::{MULTITASK, SEQUENCE, TEXT};
use crate::run::{PLIMSOLL, SR, check_text, printed, simulated};

#[test]
fn help() {
    let commands = [
        "train",
        "plan",
        "find",
        "generate",
        "upscale",
        "predict",
        "plan-batches",
        "data",
        "probe",
        "replay",
        "config",
    ];
    check_text("help", &printed(PLIMSOLL, &["--help"]));
    for command in commands {
        check_text(&format!("help.{command}"), &printed(PLIMSOLL, &[command, "--help"]));
    }
}

#[test]
fn plan() {
    for (job, sets) in [("sr", &SR[..]), ("sequence", &SEQUENCE), ("multitask", &MULTITASK), ("text", &TEXT)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("plan.json").display().to_string();
        let args = ["plan", "--job", job, "--capacity", "512MiB", "--out", &out];
        let sets = sets.iter().flat_map(|it| ["--set", it]);
        let text = simulated(&args.into_iter().chain(sets).collect::<Vec<_>>());
        check_text(&format!("plan.{job}"), &text.replace(&*folder.path().to_string_lossy(), "[folder]"));
    }
}

#[test]
fn find() {
    let sets = SR.iter().flat_map(|it| ["--set", it]);
    let args = ["find", "--capacity", "512MiB"];
    check_text("find.sr", &simulated(&args.into_iter().chain(sets).collect::<Vec<_>>()));
}
