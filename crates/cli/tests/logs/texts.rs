//! What the program prints besides runs.

use crate::jobs::{MULTITASK, SEQUENCE, TEXT};
use crate::run::{SR, check_text, printed};

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
    check_text("help", &printed(&["--help"]));
    for command in commands {
        check_text(&format!("help.{command}"), &printed(&[command, "--help"]));
    }
}

#[test]
fn plan() {
    for (job, sets) in [("sr", &SR[..]), ("sequence", &SEQUENCE), ("multitask", &MULTITASK), ("text", &TEXT)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("plan.json").display().to_string();
        let args = ["plan", "--job", job, "--capacity", "512MiB", "--out", &out];
        let sets = sets.iter().flat_map(|it| ["--set", it]);
        let text = printed(&args.into_iter().chain(sets).collect::<Vec<_>>());
        check_text(&format!("plan.{job}"), &text.replace(&*folder.path().to_string_lossy(), "[folder]"));
    }
}

#[test]
fn find() {
    let sets = SR.iter().flat_map(|it| ["--set", it]);
    let args = ["find", "--capacity", "512MiB"];
    check_text("find.sr", &printed(&args.into_iter().chain(sets).collect::<Vec<_>>()));
}
