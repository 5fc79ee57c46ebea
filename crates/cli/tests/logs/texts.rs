//! What the program prints besides runs.

use crate::run::{SR, check_text, printed};

#[test]
fn help() {
    let commands = ["train", "plan", "find", "generate", "plan-batches", "probe", "replay", "config"];
    check_text("help", &printed(&["--help"]));
    for command in commands {
        check_text(&format!("help.{command}"), &printed(&[command, "--help"]));
    }
}

#[test]
fn plan() {
    for (name, job, sets) in [("plan.sr", "sr", &SR[..]), ("plan.text", "text", &TEXT)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("plan.json").display().to_string();
        let args = ["plan", "--job", job, "--capacity", "512MiB", "--out", &out];
        let sets = sets.iter().flat_map(|it| ["--set", it]);
        let text = printed(&args.into_iter().chain(sets).collect::<Vec<_>>());
        check_text(name, &text.replace(&*folder.path().to_string_lossy(), "[folder]"));
    }
}

const TEXT: [&str; 5] = ["text.width=16", "text.layers=1", "text.heads=1", "text.vocabulary=300", "text.longest=64"];

#[test]
fn find() {
    let sets = SR.iter().flat_map(|it| ["--set", it]);
    let args = ["find", "--capacity", "512MiB"];
    check_text("find.sr", &printed(&args.into_iter().chain(sets).collect::<Vec<_>>()));
}
