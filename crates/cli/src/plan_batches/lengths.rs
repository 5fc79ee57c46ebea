//! What is known of samples, from files with a line for each.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::exit::{UserError, user_error};

/// How much of a line that is no length is shown.
const MOST_SHOWN: usize = 40;

/// Axes that a plan may have.
const MOST_AXES: usize = 3;

/// The different names that tasks may have.
const MOST_TASKS: usize = 1 << 16;

/// What lengths may be.
pub(super) struct Range {
    /// At least, on each column.
    pub(super) least: u32,
    /// At most, on each column.
    pub(super) most: Vec<u32>,
    /// What has no room for more.
    pub(super) room: &'static str,
}

/// Reads the lengths of each sample, column by column.
pub(super) fn read_lengths(path: &Path, range: &Range) -> Result<Vec<Vec<u32>>, UserError> {
    read(path, |text| lengths(text, range))
}

/// Reads the task of each sample: the names in the order in which they come, and which of them each sample has.
pub(super) fn read_tasks(path: &Path, n_samples: usize) -> Result<(Vec<String>, Vec<u16>), UserError> {
    read(path, |text| {
        let (names, tasks) = names(text, n_samples, "task")?;
        let too_many = |_| format!("it has {} different names, and there may be {MOST_TASKS}", names.len());
        let tasks = tasks.into_iter().map(u16::try_from).collect::<Result<_, _>>().map_err(too_many)?;
        Ok((names, tasks))
    })
}

/// Reads the group of each sample, as [`read_tasks`] does.
pub(super) fn read_groups(path: &Path, n_samples: usize) -> Result<(Vec<String>, Vec<u32>), UserError> {
    read(path, |text| names(text, n_samples, "group"))
}

/// Reads the weight of each sample.
pub(super) fn read_weights(path: &Path, n_samples: usize) -> Result<Vec<f64>, UserError> {
    read(path, |text| weights(text, n_samples))
}

/// Returns what belongs to samples of these ids.
pub(super) fn kept<T: Copy>(ids: &[u64], all: &[T]) -> Vec<T> {
    ids.iter().filter_map(|id| all.get(usize::try_from(*id).ok()?).copied()).collect()
}

fn read<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T, UserError> {
    let refused = |reason: String| user_error(format!("read {}: {reason}", path.display()));
    let text = fs::read(path).map_err(|error| refused(error.to_string()))?;
    parse(&text).map_err(refused)
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)
}

fn lengths(text: &[u8], range: &Range) -> Result<Vec<Vec<u32>>, String> {
    let Range { least, most, room } = range;
    if text.is_empty() {
        return Err("it is empty, one length per line is expected".to_owned());
    }
    let first = lines(text).next().unwrap_or_default();
    let n_columns = fields(first).count().clamp(1, MOST_AXES);
    if most.len() != n_columns {
        let (n, budgets) = (most.len(), if most.len() == 1 { "one number" } else { "numbers" });
        return Err(format!("line 1 has {n_columns} lengths, and the budget is {budgets} for {n}"));
    }
    let mut columns = vec![Vec::new(); n_columns];
    for (line, at) in lines(text).zip(1..) {
        let refused = |reason: String| format!("line {at} {reason}");
        let numbers: Vec<_> = if n_columns == 1 { vec![line] } else { fields(line).collect() };
        if numbers.len() != n_columns {
            return Err(refused(format!("is `{}`, {n_columns} lengths are expected", shown(line))));
        }
        for ((field, column), most) in numbers.into_iter().zip(&mut columns).zip(most) {
            let length = number(field).filter(|it| (least..=most).contains(&it));
            column.push(length.ok_or_else(|| refused(fault(field, (*least, *most), room)))?);
        }
    }
    Ok(columns)
}

/// Returns what commas and blanks divide.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|it| *it == b',' || it.is_ascii_whitespace()).filter(|it| !it.is_empty())
}

fn number(field: &[u8]) -> Option<u32> {
    str::from_utf8(field).ok()?.parse().ok()
}

/// Says what is wrong with a length, and what would be right.
fn fault(field: &[u8], (least, most): (u32, u32), room: &str) -> String {
    if number(field).is_some_and(|it| it > most) {
        return format!("has length {}, {room} has room for {most} at most", String::from_utf8_lossy(field));
    }
    format!("is `{}`, a whole number from {least} to {most} is expected", shown(field))
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

fn names(text: &[u8], n_samples: usize, what: &str) -> Result<(Vec<String>, Vec<u32>), String> {
    let (mut numbers, mut names, mut of_samples) = (HashMap::new(), Vec::new(), Vec::new());
    for (line, at) in lines(text).zip(1..) {
        let name = str::from_utf8(line).ok().filter(|it| !it.is_empty());
        let name = name.ok_or_else(|| format!("line {at} is `{}`, the name of a {what} is expected", shown(line)))?;
        let number = *numbers.entry(name).or_insert_with(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        of_samples.push(u32::try_from(number).unwrap_or(u32::MAX));
    }
    Ok((names, of_each(of_samples, n_samples)?))
}

fn weights(text: &[u8], n_samples: usize) -> Result<Vec<f64>, String> {
    let weight = |(line, at): (&[u8], usize)| {
        let weight = str::from_utf8(line).ok().and_then(|it| it.parse::<f64>().ok());
        let weight = weight.filter(|it| 0.0 <= *it && it.is_finite());
        weight.ok_or_else(|| format!("line {at} is `{}`, a number from 0 is expected", shown(line)))
    };
    let weights = lines(text).zip(1..).map(weight).collect::<Result<Vec<_>, _>>()?;
    of_each(weights, n_samples)
}

/// Refuses lines of more samples than there are, or of fewer.
fn of_each<T>(lines: Vec<T>, n_samples: usize) -> Result<Vec<T>, String> {
    if lines.len() == n_samples {
        return Ok(lines);
    }
    Err(format!("it has {} lines, and there are {n_samples} samples", lines.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(most: &[u32]) -> Range {
        Range { least: 1, most: most.to_vec(), room: "the budget" }
    }

    fn read_of(text: &[u8], most: &[u32]) -> Result<Vec<Vec<u32>>, String> {
        lengths(text, &range(most))
    }

    #[track_caller]
    fn refused(text: &[u8], message: &str) {
        assert_eq!(read_of(text, &[4096]).unwrap_err(), message);
    }

    #[test]
    fn lengths_are_read_from_each_line() {
        let expected = Ok(vec![vec![7, 4096, 12]]);
        assert_eq!(read_of(b"7\n4096\n12\n", &[4096]), expected);
        assert_eq!(read_of(b"7\r\n 4096\r\n12", &[4096]), expected);
        assert_eq!(read_of(b"1000000\n", &[u32::MAX]), Ok(vec![vec![1_000_000]]));
        let columns = Ok(vec![vec![7, 2], vec![90, 4]]);
        assert_eq!(read_of(b"7, 90\n2 4\n", &[9, 99]), columns);
        assert_eq!(read_of(b"7\t90\n2,4", &[9, 99]), columns);
    }

    #[test]
    fn what_is_no_length_is_refused_with_its_line() {
        refused(b"", "it is empty, one length per line is expected");
        refused(b"\n", "line 1 is ``, a whole number from 1 to 4096 is expected");
        refused(b"7\n\n8\n", "line 2 is ``, a whole number from 1 to 4096 is expected");
        refused(b"7\n0\n", "line 2 is `0`, a whole number from 1 to 4096 is expected");
        refused(b"7\n-3\n", "line 2 is `-3`, a whole number from 1 to 4096 is expected");
        refused(b"7\n8\n1.5", "line 3 is `1.5`, a whole number from 1 to 4096 is expected");
        refused(b"seven\n", "line 1 is `seven`, a whole number from 1 to 4096 is expected");
        refused(b"7\n\x00\xff\n", "line 2 is `\\0\u{fffd}`, a whole number from 1 to 4096 is expected");
        let long = "9".repeat(41);
        let shown = &long[1..];
        refused(long.as_bytes(), &format!("line 1 is `{shown}…`, a whole number from 1 to 4096 is expected"));
    }

    #[test]
    fn what_is_longer_than_the_budget_is_refused() {
        refused(b"7\n4096\n1000000\n", "line 3 has length 1000000, the budget has room for 4096 at most");
    }

    #[test]
    fn columns_that_differ_are_refused() {
        let of_two = |text: &[u8]| read_of(text, &[9, 99]).unwrap_err();
        assert_eq!(of_two(b"7 90\n2\n"), "line 2 is `2`, 2 lengths are expected");
        assert_eq!(of_two(b"7 90\n2 3 4\n"), "line 2 is `2 3 4`, 2 lengths are expected");
        assert_eq!(of_two(b"7 90\n2 x\n"), "line 2 is `x`, a whole number from 1 to 99 is expected");
        assert_eq!(of_two(b"7\n"), "line 1 has 1 lengths, and the budget is numbers for 2");
        refused(b"7 90\n", "line 1 has 2 lengths, and the budget is one number for 1");
    }

    #[test]
    fn a_task_or_a_group_is_a_name_on_each_line() {
        let of = |text: &[u8], n_samples| names(text, n_samples, "task");
        let expected = ["code", "books"].map(str::to_owned).to_vec();
        assert_eq!(of(b"code\nbooks\ncode\n", 3), Ok((expected, vec![0, 1, 0])));
        assert_eq!(of(b"code\n\nbooks", 3).unwrap_err(), "line 2 is ``, the name of a task is expected");
        assert_eq!(of(b"code\n", 3).unwrap_err(), "it has 1 lines, and there are 3 samples");
    }

    #[test]
    fn a_weight_is_a_number_on_each_line() {
        assert_eq!(weights(b"1\n0.25\r\n0\n", 3), Ok(vec![1.0, 0.25, 0.0]));
        assert_eq!(weights(b"1\n-2\n", 2).unwrap_err(), "line 2 is `-2`, a number from 0 is expected");
        assert_eq!(weights(b"1\nNaN\n", 2).unwrap_err(), "line 2 is `NaN`, a number from 0 is expected");
        assert_eq!(weights(b"1\n", 2).unwrap_err(), "it has 1 lines, and there are 2 samples");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_lengths(folder.path(), &range(&[9])).unwrap_err().to_string();
        assert!(message.starts_with(&format!("read {}: ", folder.path().display())), "{message}");
    }
}
