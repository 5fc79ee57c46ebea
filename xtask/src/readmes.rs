//! Each crate has a README that says what its manifest and its documentation say.

use std::path::Path;

use anyhow::ensure;

use crate::files::{entries, read};
use crate::layers::takes_burn;
use crate::process::root;

/// Checks the README of every crate of this workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for folder in entries(&root().join("crates"))? {
        broken.extend(of_crate(&folder)?);
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// Returns a sentence for each thing that the README of a crate lacks.
fn of_crate(folder: &Path) -> anyhow::Result<Vec<String>> {
    let read = |name: &str| read(&folder.join(name));
    let path = folder.join("README.md");
    let shown = path.strip_prefix(root()).unwrap_or(&path).display();
    // A crate that is a program alone has its documentation there.
    let docs = read("src/lib.rs").or_else(|_| read("src/main.rs"))?;
    let lacks = lacks(&read("README.md")?, &read("Cargo.toml")?, &docs);
    Ok(lacks.into_iter().map(|what| format!("{shown} lacks {what}")).collect())
}

/// Returns what a README lacks of name and description in the manifest, and of the first line of the documentation.
fn lacks(readme: &str, manifest: &str, lib: &str) -> Vec<String> {
    let (title, rest) = readme.split_once('\n').unwrap_or_default();
    let head = rest.split("```").next().unwrap_or_default();
    let name = value(manifest, "name").unwrap_or_default();
    let sentence = lib.lines().find_map(|line| line.strip_prefix("//! ")).unwrap_or_default();
    let description = value(manifest, "description").unwrap_or_default();
    let mut lacks = Vec::new();
    if title.strip_prefix("# ") != Some(name) {
        lacks.push(format!("the title `# {name}`"));
    }
    if !head.contains(sentence.trim_end_matches(['.', '?'])) {
        lacks.push(format!("the first line of the crate's documentation, `{sentence}`"));
    }
    if !head.lines().any(|line| line.strip_suffix('.') == Some(description)) {
        lacks.push(format!("the description in the manifest, `{description}.`"));
    }
    // The others have their READMEs tested.
    if takes_burn(name) && is_other_example(readme, lib) {
        lacks.push("the example of the crate's documentation, with its hidden lines".to_owned());
    }
    lacks
}

/// Whether a README has an example that is not the one of the documentation, which is tested, hidden lines included.
fn is_other_example(readme: &str, lib: &str) -> bool {
    let docs = lib.lines().filter_map(|line| line.strip_prefix("//!"));
    let docs = docs.map(|line| line.strip_prefix(" # ").filter(|rest| !rest.is_empty()).unwrap_or(line));
    example(readme.lines()).is_some_and(|shown| Some(shown) != example(docs))
}

/// Returns the lines of the first block of Rust in alphabetical order, without blank ones and indentation.
fn example<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    // Whether the line is in a block: what ends one of commands begins none.
    let mut is_inside = false;
    let mut lines = lines.map(str::trim).skip_while(|line| {
        let begins = !is_inside && ["```", "```rust", "```no_run"].contains(line);
        is_inside ^= line.starts_with("```");
        !begins
    });
    lines.next()?;
    let mut lines: Vec<&str> = lines.take_while(|line| *line != "```").filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    Some(lines)
}

/// Returns the text that is the value of a key.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_has_a_readme_that_says_what_it_is() {
        check().unwrap();
    }

    #[test]
    fn each_thing_that_a_readme_lacks_is_named() {
        let manifest = "[package]\nname = \"plimsoll-a\"\ndescription = \"Asks\"\n";
        let lib = "//! What is asked?\n//!\n//! More.\n";
        let of = |readme| lacks(readme, manifest, lib);
        assert!(of("# plimsoll-a\n\nWhat is asked?\n\nAsks.\n").is_empty());
        assert_eq!(of("# plimsoll-b\n\nWhat is asked?\n\nAsks.\n"), ["the title `# plimsoll-a`"]);
        assert_eq!(of("# plimsoll-a\n\nAsks.\n").len(), 1);
        assert_eq!(of("# plimsoll-a\n\nWhat is asked?\n\n```rust\nAsks.\n```\n").len(), 1);
        assert_eq!(of("").len(), 3);
    }

    #[test]
    fn an_example_without_the_lines_that_the_documentation_hides_is_another() {
        let lib =
            "//! Asks.\n//!\n//! # Example\n//!\n//! ```no_run\n//! # fn main() {\n//! ask();\n//!\n//! # }\n//! ```\n";
        assert!(!is_other_example("```rust\nfn main() {\n    ask();\n}\n```\n", lib));
        assert!(is_other_example("```rust\nask();\n```\n", lib));
        assert!(!is_other_example("None.", lib));
        assert!(!is_other_example("```sh\nask\n```\n\nNone.\n", lib), "commands are no example in Rust");
        assert!(is_other_example("```sh\nask\n```\n\n```rust\nask();\n```\n", lib));
    }
}
