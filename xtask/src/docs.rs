//! `cargo xtask docs`: the page of the book that follows from files of the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;

use anyhow::ensure;

use crate::files::{entries, read, write_whole};
use crate::process::{Stop, root};
use crate::ranges::ranges;

pub(crate) const HELP: &str = "\
docs
    Writes docs/configuration.md from the defaults of the program, their comments and their ranges.
";

/// The page, below the root of the workspace.
const PAGE: &str = "docs/configuration.md";

/// Where the defaults are, and a file for each job that has some of its own.
const DEFAULTS: &str = "crates/cli/src/default.toml";
const OF_JOBS: &str = "crates/cli/src/defaults";

const HEAD: &str = "\
# Every setting

Made by `cargo xtask docs` from [default.toml](../crates/cli/src/default.toml) and [ranges.rs](../crates/cli/src/settings/ranges.rs): change these and not this page.

`plimsoll config` prints the same as a file to begin with, and `plimsoll config --job text` that of another job.
Defaults are overridden by a TOML file (`--config FILE`), that by the environment (`PLIMSOLL__MEMORY__TARGET=0.8`), and that by flags (`--set memory.target=0.8`).
A key that is not there and a value out of range are refused by name.
";

pub(crate) fn run(args: &[OsString]) -> anyhow::Result<()> {
    if !args.is_empty() {
        return Err(Stop::Usage("`docs` takes no arguments".to_owned()).into());
    }
    write_whole(&root().join(PAGE), &page()?)
}

/// Checks that the page says what the program does.
pub(crate) fn check() -> anyhow::Result<()> {
    let is_current = read(&root().join(PAGE))? == page()?;
    ensure!(is_current, "{PAGE} is not what the program says: `cargo xtask docs` writes it anew");
    Ok(())
}

fn page() -> anyhow::Result<String> {
    let files = entries(&root().join(OF_JOBS))?;
    let of_jobs = files.iter().map(|file| {
        let job = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((job, settings(&read(file)?)))
    });
    let of_jobs = of_jobs.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(render(&settings(&read(&root().join(DEFAULTS))?), &of_jobs, &ranges()?))
}

/// What each number may be, by its key.
type Ranges = BTreeMap<String, String>;

/// A key with what stands beside it.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    section: String,
    key: String,
    value: String,
    /// Empty where the comment before covers this key too.
    comment: String,
}

/// Reads sections, comments and values of one line each, which is all that the defaults have.
fn settings(toml: &str) -> Vec<Setting> {
    let (mut settings, mut section, mut comment) = (Vec::new(), String::new(), Vec::new());
    for line in toml.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
            comment.clear();
        } else if let Some((key, value)) = line.split_once(" = ") {
            let comment = std::mem::take(&mut comment).join(" ");
            settings.push(Setting { section: section.clone(), key: key.to_owned(), value: value.to_owned(), comment });
        }
    }
    settings
}

fn render(settings: &[Setting], of_jobs: &[(String, Vec<Setting>)], ranges: &Ranges) -> String {
    let mut page = HEAD.to_owned();
    for section in settings.chunk_by(|a, b| a.section == b.section) {
        let heading = match section[0].section.as_str() {
            "" => "The run".to_owned(),
            name => format!("`[{name}]`"),
        };
        let _ = write!(page, "\n## {heading}\n\n| key | default | may be | meaning |\n|---|---|---|---|\n");
        for group in section.chunk_by(|_, next| next.comment.is_empty()) {
            page += &row(group, of_jobs, ranges);
        }
    }
    page
}

/// Writes the row of keys that share a comment.
fn row(group: &[Setting], of_jobs: &[(String, Vec<Setting>)], ranges: &Ranges) -> String {
    let keys: Vec<_> = group.iter().map(|it| format!("`{}`", it.key)).collect();
    let values: Vec<_> = group.iter().map(|it| default(it, of_jobs)).collect();
    let may_be = range(group, ranges);
    let meaning = group[0].comment.replace('|', "\\|");
    format!("| {} | {} | {may_be} | {meaning} |\n", keys.join(", "), values.join(", "))
}

/// Writes what numbers may be: once, where it is the same for all of them.
fn range(group: &[Setting], ranges: &Ranges) -> String {
    let name = |it: &Setting| if it.section.is_empty() { it.key.clone() } else { format!("{}.{}", it.section, it.key) };
    let mut of_keys: Vec<&str> = group.iter().map(|it| ranges.get(&name(it)).map_or("", String::as_str)).collect();
    if of_keys.iter().all(|it| *it == of_keys[0]) {
        of_keys.truncate(1);
    } else {
        of_keys.iter_mut().filter(|it| it.is_empty()).for_each(|it| *it = "–");
    }
    of_keys.join("; ")
}

/// Writes a default, and those of jobs that have another.
fn default(it: &Setting, of_jobs: &[(String, Vec<Setting>)]) -> String {
    let others = of_jobs.iter().flat_map(|(job, settings)| settings.iter().map(move |other| (job, other)));
    let others =
        others.filter(|(_, other)| other.section == it.section && other.key == it.key && other.value != it.value);
    let own = std::iter::once(format!("`{}`", it.value));
    own.chain(others.map(|(job, other)| format!("{job}: `{}`", other.value))).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_that_of_the_defaults() {
        check().unwrap();
    }

    #[test]
    fn no_key_of_the_defaults_is_passed_over() {
        let toml = read(&root().join(DEFAULTS)).unwrap();
        let is_value = |line: &&str| !line.starts_with(['#', '[']) && !line.trim().is_empty();
        assert_eq!(settings(&toml).len(), toml.lines().filter(is_value).count());
    }

    #[test]
    fn keys_that_share_a_comment_share_a_row_and_jobs_say_what_differs() {
        let common = settings("# A seed,\n# or two.\nseed = 0\n\n[batch]\n# Bounds: a|b.\nleast = 1\nmost = 8\n");
        let jobs = [("text".to_owned(), settings("[batch]\nleast = 1\nmost = 9\n"))];
        let ranges = BTreeMap::from([("batch.least", "1 to 8"), ("batch.most", "1 to 8")]);
        let ranges = ranges.into_iter().map(|(key, range)| (key.to_owned(), range.to_owned())).collect();
        let page = render(&common, &jobs, &ranges);
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `seed` | `0` |  | A seed, or two. |",
                "| `least`, `most` | `1`, `8`; text: `9` | 1 to 8 | Bounds: a\\|b. |"
            ]
        );
    }
}
