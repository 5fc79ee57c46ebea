//! What no lint checks: nothing is left to be filled in later, every crate takes the workspace's lints, and every table
//! of the book has a head.

use std::path::Path;

use anyhow::ensure;

use crate::files::{entries, read};
use crate::process::root;

/// Marks of unfinished work, each in two pieces so that this file does not report itself.
const UNFINISHED: [&str; 3] = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];

/// Checks the sources, manifests and pages of this workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for folder in ["crates", "docs", "xtask", "fuzz/src", "fuzz/fuzz_targets"] {
        visit(&root().join(folder), &mut broken)?;
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

fn visit(folder: &Path, broken: &mut Vec<String>) -> anyhow::Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            visit(&path, broken)?;
        } else if let Some(rules) = rules(&path) {
            let text = read(&path)?;
            let path = path.strip_prefix(root()).unwrap_or(&path).display();
            broken.extend(rules(&text).into_iter().map(|sentence| format!("{path}{sentence}")));
        }
    }
    Ok(())
}

fn rules(path: &Path) -> Option<fn(&str) -> Vec<String>> {
    match path.extension()?.to_str()? {
        "rs" => Some(unfinished),
        "md" => Some(headless_tables),
        _ => (path.file_name()? == "Cargo.toml").then_some(without_lints),
    }
}

fn unfinished(source: &str) -> Vec<String> {
    let lines = source.lines().zip(1..);
    let marks = lines.filter_map(|(line, number)| {
        let mark = UNFINISHED.into_iter().find(|mark| line.contains(mark))?;
        Some(format!(":{number} has `{mark}`"))
    });
    marks.collect()
}

/// Where a table begins without a head, as below an empty line that cuts one: what follows is shown as bare text.
fn headless_tables(page: &str) -> Vec<String> {
    let is_row = |line: &&str| line.starts_with('|');
    let is_ruler = |line: &&str| is_row(line) && line.chars().all(|it| "|-: ".contains(it));
    let lines: Vec<&str> = page.lines().collect();
    let starts =
        (0..lines.len()).filter(|&at| is_row(&lines[at]) && !at.checked_sub(1).is_some_and(|it| is_row(&lines[it])));
    let headless = starts.filter(|at| !lines.get(at + 1).is_some_and(is_ruler));
    headless.map(|at| format!(":{} has a row of a table that has no head", at + 1)).collect()
}

fn without_lints(manifest: &str) -> Vec<String> {
    let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
    let inherits = lines.windows(2).any(|pair| pair == ["[lints]", "workspace = true"]);
    if inherits { vec![] } else { vec![" has no `[lints] workspace = true`".to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        check().unwrap();
    }

    #[test]
    fn each_mark_of_unfinished_work_is_reported_with_its_line() {
        for mark in UNFINISHED {
            assert_eq!(unfinished(&format!("fn main() {{\n    {mark}")), [format!(":2 has `{mark}`")]);
        }
        assert!(unfinished("fn main() {} // nothing to do, nothing to ignore").is_empty());
    }

    #[test]
    fn a_row_that_an_empty_line_cuts_off_its_table_is_reported_with_its_line() {
        assert!(headless_tables("# Page\n\n| a |\n|---|\n| b |\n").is_empty());
        assert_eq!(headless_tables("| a |\n|---|\n| b |\n\n| c |\n"), [":5 has a row of a table that has no head"]);
    }

    #[test]
    fn a_manifest_without_the_lints_is_reported() {
        assert!(without_lints("[package]\n\n[lints]\nworkspace = true\n").is_empty());
        assert_eq!(without_lints("[dependencies]\nfoo.workspace = true\n[lints]").len(), 1);
    }
}
