//! The program says how it is used, and writes no file whose name is a flag.
#![cfg(test)]

use std::fs;
use std::process::Command;

#[track_caller]
fn check(args: &[&str], succeeds: bool, says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_chaos")).args(args).current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() == succeeds && told.contains(says), "{args:?}: {told}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?} leaves a file");
}

#[test]
fn a_flag_is_no_file_to_write() {
    for args in [&["--help"][..], &["-h"], &["out", "--help"]] {
        check(args, true, "write `PROGRAM OUT");
    }
    for args in [&["--halp"][..], &["program", "out", "--halp", "3"], &["program", "-x"]] {
        check(args, false, "invalid option '-");
    }
    for args in [&[][..], &["program"], &["program", "out", "--rounds"], &["program", "out", "--seed", "many"]] {
        check(args, false, "write `PROGRAM OUT");
    }
}
