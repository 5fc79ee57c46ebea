//! What each number of the configuration may be, as the program's source has it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::files::read;
use crate::process::root;

/// Where the ranges are, and the constants that these name.
const RANGES: &str = "crates/cli/src/settings/ranges.rs";
const CONSTANTS: [&str; 3] = [RANGES, "crates/policy/src/bounds.rs", "crates/workloads/src/text/vocabulary.rs"];

/// Returns the range of each key, in words.
pub(crate) fn ranges() -> anyhow::Result<BTreeMap<String, String>> {
    let mut constants = BTreeMap::new();
    for file in CONSTANTS {
        constants.extend(constants_of(&read(&root().join(file))?));
    }
    let source = read(&root().join(RANGES))?;
    let (_, list) = source.split_once("RANGES: [").with_context(|| format!("{RANGES} has no list of ranges"))?;
    let (list, _) = list.split_once("\n];").with_context(|| format!("the list of {RANGES} has no end"))?;
    let entries = list.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", "));
    entries.map(|(key, range)| Ok((key.to_owned(), in_words(range.trim_end_matches("),"), &constants)?))).collect()
}

/// Returns the constants of a file, each as it is written.
fn constants_of(source: &str) -> BTreeMap<String, String> {
    let constant = |line: &str| {
        let (name, value) = line.split_once("const ")?.1.strip_suffix(';')?.split_once(" = ")?;
        Some((name.split_once(':')?.0.to_owned(), value.to_owned()))
    };
    source.lines().filter_map(constant).collect()
}

/// Says what a range allows.
fn in_words(range: &str, constants: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let Some((kind, ends)) = range.split_once('(') else {
        let named = constants.get(range).with_context(|| format!("there is no range {range}"))?;
        return in_words(named, constants);
    };
    let ends = ends.trim_end_matches(')').split_once(", ").with_context(|| format!("{range} has no two ends"))?;
    let (least, most) = (number(ends.0, constants)?, number(ends.1, constants)?);
    Ok(match (kind, most.as_str()) {
        ("Whole", "i64::MAX") => format!("{least} or more"),
        ("Whole", _) => format!("{least} to {most}"),
        ("Closed", _) => format!("from {least} to {most}"),
        ("Above", _) => format!("above {least} and at most {most}"),
        ("Below", _) => format!("from {least} to below {most}"),
        ("Between", _) => format!("above {least} and below {most}"),
        _ => bail!("{RANGES}: there is no range {range}"),
    })
}

/// Writes a number, or a constant, as a person does.
fn number(text: &str, constants: &BTreeMap<String, String>) -> anyhow::Result<String> {
    let text = text.split(" as ").next().unwrap_or_default();
    let is_number = text.starts_with(|it: char| it.is_ascii_digit());
    let text = if is_number { text.replace('_', "") } else { text.to_owned() };
    if let Some((one, by)) = text.split_once(" << ") {
        return Ok((one.parse::<u64>()? << by.parse::<u32>()?).to_string());
    }
    match text.as_str() {
        "i64::MAX" => Ok(text),
        "u16::MAX" => Ok(u16::MAX.to_string()),
        "u32::MAX" => Ok(u32::MAX.to_string()),
        _ if text.parse::<f64>().is_ok() => Ok(text.trim_end_matches(".0").to_owned()),
        name => number(constants.get(name).with_context(|| format!("there is no constant {name}"))?, constants),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_program_is_read() {
        let (source, ranges) = (read(&root().join(RANGES)).unwrap(), ranges().unwrap());
        let (_, rest) = source.split_once("RANGES: [(&str, Range); ").unwrap();
        assert_eq!(ranges.len().to_string(), rest.split_once(']').unwrap().0);
        for (key, expected) in [
            ("seed", "0 or more"),
            ("memory.target", "above 0 and at most 1"),
            ("batch.effective_batch_size", "1 to 4294967295"),
            ("batch.patch_multiple", "1 to 1048576"),
            ("policy.reopen_after_steps", "1 to 1000000000"),
            ("tasks.temperature", "from 0.01 to 1000"),
            ("text.vocabulary", "257 to 65535"),
            ("data.validation_share", "above 0 and below 1"),
        ] {
            assert_eq!(ranges[key], expected, "{key}");
        }
    }

    #[test]
    fn what_is_no_range_is_named() {
        let constants = BTreeMap::from([("A".to_owned(), "1 << 3".to_owned())]);
        assert_eq!(in_words("Whole(2, A)", &constants).unwrap(), "2 to 8");
        for wrong in ["Whole(2, B)", "Around(0, 1)", "C", "Whole(2)"] {
            assert!(in_words(wrong, &constants).is_err(), "{wrong}");
        }
    }
}
