//! Which versions a build believes that it takes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../build/versions.rs"]
mod versions;

use std::fs;
use std::path::{Path, PathBuf};

use versions::{Versions, find};

fn lock(burn: &str, source: &str) -> String {
    format!(
        "version = 4\n\n[[package]]\nname = \"burn\"\nversion = \"{burn}\"\n\n[[package]]\nname = \
         \"plimsoll-plan\"\nversion = \"0.1.0\"\n{source}dependencies = [\n \"burn\",\n]\n"
    )
}

/// A build of a program below one folder, whose target folder lies below another; returns `OUT_DIR`.
fn target(folder: &Path) -> PathBuf {
    let out = folder.join("target/debug/build/plimsoll-plan-0123/out");
    fs::create_dir_all(&out).unwrap();
    out
}

#[track_caller]
fn check(named: Option<&Path>, out: &Path, burn: Option<&str>) {
    assert_eq!(find(named, out).map(|it| it.1.burn).as_deref(), burn);
}

#[test]
fn the_lock_above_the_target_folder_is_that_of_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let out = target(folder.path());
    check(None, &out, None);
    fs::write(folder.path().join("Cargo.lock"), lock("0.22.1", "")).unwrap();
    check(None, &out, Some("0.22.1"));
    // A program of its own in between, without this crate.
    fs::write(folder.path().join("target/Cargo.lock"), "[[package]]\nname = \"burn\"\nversion = \"0.1.0\"\n").unwrap();
    check(None, &out, Some("0.22.1"));
}

#[test]
fn the_lock_that_is_named_is_taken_and_no_other_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (out, named) = (target(folder.path()), folder.path().join("users.lock"));
    fs::write(folder.path().join("Cargo.lock"), lock("0.22.1", "")).unwrap();
    fs::write(&named, lock("0.23.0", "source = \"git+https://example.org/plimsoll#0123\"\n")).unwrap();
    check(Some(&named), &out, Some("0.23.0"));
    check(Some(&folder.path().join("none.lock")), &out, None);
}

#[test]
fn a_lock_may_have_two_of_a_name_and_lines_of_another_system() {
    let two = "[[package]]\nname = \"burn\"\nversion = \"0.21.0\"\n\n[[package]]\nname = \"burn\"\nversion = \
               \"0.22.1\"\n\n[[package]]\nname = \"plimsoll-plan\"\nversion = \"0.1.0\"\ndependencies = [\n \"burn \
               0.22.1\",\n \"cubecl 0.11.3 (registry)\",\n]\n";
    let expected = Some(Versions { burn: "0.22.1".to_owned(), cubecl: "0.11.3".to_owned() });
    assert_eq!(Versions::of(two), expected);
    assert_eq!(Versions::of(&two.replace('\n', "\r\n")), expected);
    assert_eq!(Versions::of("name = \"plimsoll-plan\"\n"), None);
    assert_eq!(Versions::of(&lock("0.22.1", "")).unwrap().cubecl, "none");
}

#[test]
fn what_nobody_knows_is_equal_to_no_other_build() {
    assert_ne!(Versions::unknown("1763800000.000000001"), Versions::unknown("1763800000.000000002"));
    assert!(Versions::unknown("1763800000.5").burn.starts_with("unknown"));
}
