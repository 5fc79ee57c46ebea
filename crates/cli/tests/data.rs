//! `plimsoll data`: what a folder must hold, and what a run would see of one.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use plimsoll_fixtures::copy_folder;

const JOBS: [&str; 4] = ["sr", "sequence", "multitask", "text"];

fn plimsoll(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    contains(&text(&output.stderr), parts);
}

/// Returns what is said of a folder.
#[track_caller]
fn checked(job: &str, folder: &Path, args: &[&str]) -> String {
    let output = plimsoll(&[&["data", job, folder.to_str().unwrap()], args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

/// A copy of what comes with Plimsoll for a job.
fn fixtures(job: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&plimsoll_fixtures::dir().join(job), folder.path()).unwrap();
    folder
}

#[test]
fn the_page_of_each_job_is_the_one_in_the_docs() {
    for job in JOBS {
        let output = plimsoll(&["data", job]);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/data/{job}.md"));
        assert_eq!(text(&output.stdout), fs::read_to_string(page).unwrap(), "{job}");
        assert!(output.status.success());
    }
    refused(&plimsoll(&["data", "sing"]), &["sing", "sr, sequence, multitask, text"]);
}

#[test]
fn a_folder_is_checked_for_what_a_run_would_see() {
    let sr = fixtures("sr");
    fs::write(sr.path().join("notes.txt"), "no image").unwrap();
    contains(
        &checked("sr", sr.path(), &[]),
        &[
            "images      12 to train on, 4 to validate on, 4 to test on",
            "lengths     shortest ",
            "skipped     1: notes.txt: no PNG",
        ],
    );
    contains(
        &checked("sequence", fixtures("sequence").path(), &[]),
        &["recordings  ", "(frames of 10 ms)", "labels      fall 12, hop 12, "],
    );
    let enough = checked("multitask", fixtures("multitask").path(), &[]);
    contains(&enough, &["samples     ", "(images)", "tasks       pair ", "subjects    "]);
    assert!(!enough.contains("note "), "{enough}");
    let few = checked(
        "multitask",
        fixtures("multitask").path(),
        &["--set", "data.validation_share=0.9", "--set", "data.test_share=0"],
    );
    contains(
        &few,
        &["note        1 image of \"bavo\" to train on, and too few of 7 more: with fewer than 2 photographs"],
    );
    let documents = fixtures("text");
    let told = checked("text", documents.path(), &[]);
    contains(&told, &["sections    ", " to test on", "lengths     shortest ", "(tokens)", "tokenizer   "]);
    // As a run says.
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run").display().to_string();
    let small =
        ["--set", "text.layers=1", "--set", "text.width=16", "--capacity", "1GiB", "--steps", "1", "--out", &out];
    let data = documents.path().to_str().unwrap();
    let run = plimsoll(&[&["train", "--job", "text", "--data", data][..], &small].concat());
    let number = |line: &str, at: usize| line.split_whitespace().nth(at).unwrap().to_owned();
    let line = |text: &str, part: &str| text.lines().find(|it| it.contains(part)).unwrap_or_default().to_owned();
    let (sections, said) = (line(&told, "sections    "), line(&text(&run.stderr), " sections to train on"));
    let numbers = |line: &str, at: [usize; 3]| at.map(|at| number(line, at));
    assert_eq!(numbers(&sections, [1, 5, 9]), numbers(&said, [1, 6, 10]), "{said}");
    assert_eq!(number(&line(&told, "tokenizer   "), 1), number(&said, 14), "{said}");
    let tale = fs::read_dir(documents.path().join("tales")).unwrap().next().unwrap().unwrap().path();
    contains(&checked("text", &tale, &[]), &["sections    "]);
}

#[test]
fn what_is_bad_is_named_or_counted() {
    let folder = fixtures("sequence");
    let list = folder.path().join("labels.csv");
    let gone = fs::read_to_string(&list).unwrap() + "gone.wav,fall,ada\n";
    fs::write(&list, gone).unwrap();
    let check = ["data", "sequence", folder.path().to_str().unwrap()];
    refused(&plimsoll(&check), &["gone.wav: there is no such file", "bad_sample"]);
    let said = checked("sequence", folder.path(), &["--set", "data.bad_sample=skip"]);
    contains(&said, &["skipped     1: gone.wav: there is no such file"]);
}

#[test]
fn an_image_that_keeps_patches_small_is_named_with_a_cure_that_helps() {
    let folder = fixtures("sr");
    let icon = [&b"P6 40 40 255\n"[..], &[90; 40 * 40 * 3]].concat();
    // Whichever of them is held out, the others are not.
    (0..4).for_each(|at| fs::write(folder.path().join(format!("icon{at}.ppm")), &icon).unwrap());
    let said = checked("sr", folder.path(), &[]);
    contains(&said, &["patches stop at 20 instead of ", ".ppm has 40 × 40 pixels", "--set batch.patch_min="]);
    let least = said.split("batch.patch_min=").nth(1).unwrap().split('`').next().unwrap();
    let least = format!("batch.patch_min={least}");
    let said = checked("sr", folder.path(), &["--set", &least, "--set", "data.bad_sample=skip"]);
    contains(&said, &["skipped     4: icon0.ppm: 40 × 40 pixels are too few"]);
    assert!(!said.contains("icon0.ppm has"), "{said}");
}

#[test]
fn a_folder_that_holds_nothing_for_a_job_leads_to_its_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes"), "nothing").unwrap();
    for job in JOBS {
        // As this program was called, so that it can be pasted.
        let page = format!("`{} data {job}` says what a folder must hold", env!("CARGO_BIN_EXE_plimsoll"));
        let path = folder.path().to_str().unwrap();
        refused(&plimsoll(&["data", job, path]), &[&page]);
        refused(&plimsoll(&["train", "--job", job, "--data", path, "--no-supervise"]), &[&page]);
    }
}
