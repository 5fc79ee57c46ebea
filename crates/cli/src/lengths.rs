//! Lengths of samples, from a file with one per line.

use std::fs;
use std::path::Path;

use crate::exit::{UserError, user_error};

/// How much of a line that is no length is shown.
const MOST_SHOWN: usize = 40;

/// Reads the length of each sample; none is above the budget, which would have no room for it even alone.
pub(crate) fn read_lengths(path: &Path, budget: u64) -> Result<Vec<u32>, UserError> {
    let refused = |reason: String| user_error(format!("read {}: {reason}", path.display()));
    let text = fs::read(path).map_err(|error| refused(error.to_string()))?;
    lengths(&text, budget).map_err(refused)
}

fn lengths(text: &[u8], budget: u64) -> Result<Vec<u32>, String> {
    if text.is_empty() {
        return Err("it is empty, one length per line is expected".to_owned());
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
    let most = u32::try_from(budget).unwrap_or(u32::MAX);
    let checked = |(index, line): (usize, &[u8])| {
        let line = line.trim_ascii();
        let length = number(line).filter(|it| (1..=most).contains(it));
        length.ok_or_else(|| format!("line {} {}", index + 1, fault(line, most)))
    };
    lines.enumerate().map(checked).collect()
}

fn number(line: &[u8]) -> Option<u32> {
    str::from_utf8(line).ok()?.parse().ok()
}

/// Says what is wrong with a line, and what would be right.
fn fault(line: &[u8], most: u32) -> String {
    if number(line).is_some_and(|it| it > most) {
        return format!("has length {}, the budget has room for {most} at most", String::from_utf8_lossy(line));
    }
    let text = String::from_utf8_lossy(line);
    let mut shown: String = text.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    format!("is `{shown}`, a whole number from 1 to {most} is expected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &[u8], message: &str) {
        assert_eq!(lengths(text, 4096).unwrap_err(), message);
    }

    #[test]
    fn one_length_is_read_from_each_line() {
        let expected = Ok(vec![7, 4096, 12]);
        assert_eq!(lengths(b"7\n4096\n12\n", 4096), expected);
        assert_eq!(lengths(b"7\r\n 4096\r\n12", 4096), expected);
        assert_eq!(lengths(b"1000000\n", u64::MAX), Ok(vec![1_000_000]));
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
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_lengths(folder.path(), 9).unwrap_err().to_string();
        assert!(message.starts_with(&format!("read {}: ", folder.path().display())), "{message}");
    }
}
