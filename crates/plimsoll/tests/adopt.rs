//! Programs as a Burn user writes them, and the same with what it takes to adopt this crate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use similar::{ChangeTag, TextDiff};

/// The most lines that a program has instead of others.
const MOST_LINES: usize = 10;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(example: &str) -> String {
    fs::read_to_string(here().join("examples").join(example).with_extension("rs")).unwrap()
}

/// Returns the last loss that an example prints.
fn last_loss(example: &str) -> f64 {
    let tests = std::env::current_exe().unwrap();
    let built: PathBuf = tests.ancestors().nth(2).unwrap().join("examples").join(example);
    assert!(built.exists(), "{} is not built: `cargo build --examples` builds it", built.display());
    let output = Command::new(built).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    shown.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn adopting_takes_few_lines_which_the_docs_show() {
    let docs = fs::read_to_string(here().join("../../docs/adopt.md")).unwrap();
    let (own, adopted) = (source("regression"), source("regression_adopted"));
    let diff = TextDiff::from_lines(&own, &adopted);
    let changed =
        |tag: ChangeTag| diff.iter_all_changes().filter(|it| it.tag() == tag && !it.value().trim().is_empty()).count();
    assert!(changed(ChangeTag::Insert) <= MOST_LINES && changed(ChangeTag::Delete) <= MOST_LINES);
    let shown = diff.unified_diff().context_radius(1).to_string();
    let block = format!("```diff\n{shown}```\n");
    assert!(docs.contains(&block), "docs/adopt.md lacks this, which `examples/` say:\n{block}");
}

#[test]
fn both_programs_learn_alike() {
    let (own, adopted) = (last_loss("regression"), last_loss("regression_adopted"));
    // The sums of four losses, of 1.0 in the first epoch; a step in parts rounds otherwise.
    assert!(own < 0.7 && (own - adopted).abs() < 0.01, "{own} {adopted}");
}
