//! What is wrong with one rank of several, or with what they have in common.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{json, text};
use crate::{done, has_ranks, mpirun, with_settings};

/// Runs two ranks, the second of which does something first, such as taking other arguments; a user's mistake ends both.
fn run(first: &str, args: &[&str], out: &Path, sets: &[&str]) -> Output {
    let script = format!("if [ \"$PMI_RANK$OMPI_COMM_WORLD_RANK\" = 1 ]; then {first}; fi; exec \"$@\"");
    let mut command = Command::new("mpirun");
    command.args(["-n", "2", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_plimsoll")]);
    with_settings(command, args, out, sets).output().unwrap()
}

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "`{stderr}` lacks `{part}`");
    }
}

#[test]
fn data_that_differ_and_a_device_that_is_not_there_are_named() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, data) = (folder.path().join("run"), folder.path().join("data"));
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
    let images: Vec<_> = fs::read_dir(images).unwrap().map(|it| it.unwrap().path()).collect();
    for (name, n) in [("all", images.len()), ("fewer", images.len() - 1)] {
        fs::create_dir_all(data.join(name)).unwrap();
        for image in &images[..n] {
            fs::copy(image, data.join(name).join(image.file_name().unwrap())).unwrap();
        }
    }
    let all = format!("data.folder={}", data.join("all").display());
    let fewer = format!("set -- \"$@\" --set data.folder={}", data.join("fewer").display());
    let output = run(&fewer, &["--steps", "2"], &out, &[&all]);
    refused(&output, &["`data.folder` is ", " images of 4 crops, checksum ", " on rank 1, and ", "on the same data"]);
    let output = run("set -- \"$@\" --device vulkan:99", &["--steps", "2"], &out, &[]);
    refused(&output, &["rank 1: error: failed to open vulkan:99"]);
}

#[test]
fn a_folder_that_one_rank_cannot_write_ends_all_of_them() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    done(mpirun(2, &["--steps", "4"], &out, &[]).unwrap());
    fs::remove_dir_all(out.join("ranks")).unwrap();
    fs::write(out.join("ranks"), "in the way").unwrap();
    let output = run("true", &["--steps", "6", "--resume"], &out, &[]);
    refused(&output, &["rank 1: error: failed to ", "rank 1 cannot, as it says"]);
    let below_a_file = out.join("ranks/run");
    refused(&run("true", &["--steps", "2"], &below_a_file, &[]), &["error: failed to create "]);
}

#[test]
fn ranks_of_one_device_say_what_each_has_of_it_and_take_the_cores_that_they_are_told() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let sets = ["batch.effective_batch_size=64", "batch.batch_max=8"];
    let mut two = mpirun(2, &["--steps", "3", "--capacity", "device"], &out, &sets).unwrap();
    two.env("RAYON_NUM_THREADS", "3");
    let said = text(&done(two).stderr);
    assert!(said.contains("device      flex is shared by 2 ranks, this one with "), "{said}");
    let report = json(&out.join("training_report.json"));
    for rank in report["ranks"].as_array().unwrap() {
        assert_eq!(rank["device"], "flex (3 replicas)");
    }
}

#[test]
fn nobody_is_silent_while_a_rank_starts_late() {
    if !has_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run("sleep 5", &["--steps", "2"], &folder.path().join("run"), &[]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("waiting     for all ranks to start: "), "{said}");
}
