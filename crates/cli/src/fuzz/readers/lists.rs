//! What `plan-batches` reads of samples, and plans.

use clap::Parser;
use tempfile::tempdir;

use super::put;
use crate::args::{Cli, Command};
use crate::fuzz::Reader;
use crate::plan_batches::plan_batches;

const WORDS: &[&str] =
    &["\n", "1", "4096", "0", "-1", "4294967295", "4294967296", "1.5", "nan", "1e400", ", ", "\t", "\u{feff}"];

/// Plans files of lengths and weights.
fn plans(args: &[&str]) -> bool {
    let args = Cli::try_parse_from([&["plimsoll", "plan-batches"], args].concat()).unwrap();
    let Command::PlanBatches(args) = args.command else { panic!("another command") };
    plan_batches(&args).is_ok()
}

/// Lengths on one axis and on two, of which the first line decides.
#[test]
fn lengths() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("plan").display().to_string();
    let mut read = |input: &[u8]| {
        let path = put(&folder, "lengths.txt", input).display().to_string();
        ["4096", "4096,4096"].iter().any(|budget| plans(&["--lengths", &path, "--budget", budget, "--out", &out]))
    };
    let corpus = ["12\n7\n4096\n1\n", "12,7\n33 2\n4096\t1\n"].map(|it| it.as_bytes().to_vec()).into();
    Reader { name: "lengths", corpus, words: WORDS, read: &mut read }.fuzz();
}

/// A weight for each of four samples.
#[test]
fn weights() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("plan").display().to_string();
    let lengths = put(&folder, "lengths.txt", b"12\n7\n33\n1\n").display().to_string();
    let mut read = |input: &[u8]| {
        let path = put(&folder, "weights.txt", input).display().to_string();
        plans(&["--lengths", &lengths, "--weights", &path, "--budget", "64", "--out", &out])
    };
    let corpus = vec![b"1\n0.5\n0\n2e3\n".to_vec()];
    Reader { name: "weights", corpus, words: WORDS, read: &mut read }.fuzz();
}
