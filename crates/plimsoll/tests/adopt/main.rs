//! Programs as a Burn user writes them, and the same with what it takes to adopt this crate.
//!
//! Each `examples/NAME_adopted.rs` has its `examples/NAME.rs`, and its change in `docs/adopt.md`, in the block that follows
//! the first mention of `examples/NAME.rs` there: `INSTA_UPDATE=always cargo test -p plimsoll --test adopt` writes it.
//! What the two programs of a pair have in common when they run says a module of its own here, named as the pair.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod find;
mod gan;
mod image;
#[cfg(feature = "learner")]
mod image_learner;
mod plan;
mod regression;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use similar::{ChangeTag, TextDiff};

/// The most lines that a program has instead of others.
const MOST_LINES: usize = 10;

/// The same for one that asks for nothing but a batch size; its name begins so.
const FINDER: (&str, usize) = ("find", 5);

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(example: &str) -> String {
    fs::read_to_string(here().join("examples").join(example).with_extension("rs")).unwrap()
}

/// Returns the programs that have adopted this crate, by name.
fn pairs() -> Vec<String> {
    let files = fs::read_dir(here().join("examples")).unwrap().map(|it| it.unwrap().path());
    let stems = files.filter_map(|it| Some(it.file_stem()?.to_str()?.to_owned()));
    let mut pairs: Vec<_> = stems.filter_map(|it| Some(it.strip_suffix("_adopted")?.to_owned())).collect();
    pairs.sort_unstable();
    pairs
}

/// Returns the page with another block of this program, or `None` where it has no block of it.
fn with_block(page: &str, pair: &str, block: &str) -> Option<String> {
    let mention = page.find(&format!("examples/{pair}.rs"))?;
    let start = mention + page[mention..].find("```diff\n")?;
    let end = start + page[start..].find("\n```\n")? + "\n```\n".len();
    Some(format!("{}{block}{}", &page[..start], &page[end..]))
}

/// Runs an example that is built, and returns what it prints.
fn shown(example: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let built: PathBuf = tests.ancestors().nth(2).unwrap().join("examples").join(example);
    assert!(built.exists(), "{} is not built: `cargo build --examples` builds it", built.display());
    let output = Command::new(built).output().unwrap();
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the last number of what an example prints, which ends in it.
fn last_number(example: &str) -> f64 {
    let shown = shown(example);
    shown
        .trim_end()
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("{example} shows no number: {shown}"))
}

#[test]
fn adopting_takes_few_lines() {
    assert!(!pairs().is_empty());
    for pair in pairs() {
        let (own, adopted) = (source(&pair), source(&format!("{pair}_adopted")));
        let diff = TextDiff::from_lines(&own, &adopted);
        let is_changed =
            |tag| diff.iter_all_changes().filter(move |it| it.tag() == tag && !it.value().trim().is_empty()).count();
        let (inserted, deleted) = (is_changed(ChangeTag::Insert), is_changed(ChangeTag::Delete));
        let (finder, few) = FINDER;
        let most = if pair.starts_with(finder) { few } else { MOST_LINES };
        assert!(inserted <= most && deleted <= most, "{pair}: {inserted} lines instead of {deleted}, at most {most}");
    }
}

#[test]
fn the_docs_show_each_change() {
    let file = here().join("../../docs/adopt.md");
    let page = fs::read_to_string(&file).unwrap();
    let block = |pair: &str| {
        let (own, adopted) = (source(pair), source(&format!("{pair}_adopted")));
        let diff = TextDiff::from_lines(&own, &adopted).unified_diff().context_radius(1).to_string();
        format!("```diff\n{diff}```\n")
    };
    let expected = pairs().into_iter().fold(page.clone(), |page, pair| {
        let block = block(&pair);
        with_block(&page, &pair, &block)
            .unwrap_or_else(|| panic!("{} lacks a block after `examples/{pair}.rs`:\n{block}", file.display()))
    });
    if std::env::var("INSTA_UPDATE").is_ok_and(|it| it == "always") {
        fs::write(&file, expected).unwrap();
    } else {
        let diff = TextDiff::from_lines(&page, &expected);
        assert!(page == expected, "{} is not what `examples/` say:\n{}", file.display(), diff.unified_diff());
    }
}
