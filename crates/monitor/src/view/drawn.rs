//! Lines that stand on a terminal.

use unicode_width::UnicodeWidthChar;

/// Begins a sequence of ANSI's that colours what follows, up to an `m`.
const ESCAPE: char = '\x1b';
/// Erase the row that the cursor is in, and the one above.
const ROW: &str = "\r\x1b[2K";
const ROW_ABOVE: &str = "\x1b[1A\r\x1b[2K";

/// Lines of a [`View`](crate::View) that were drawn, with the cursor behind the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn(Vec<String>);

impl Drawn {
    /// Describes lines that are drawn one below the other.
    pub const fn new(lines: Vec<String>) -> Self {
        Self(lines)
    }

    /// Whether nothing is drawn.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes what erases them, from the last row upwards, on a terminal that has so many columns by now.
    ///
    /// One that has grown narrower has broken its lines, as most terminals do, and they take more rows than they did.
    pub fn erasure(&self, columns: usize) -> String {
        let n_rows: usize = self.0.iter().map(|line| n_rows(line, columns)).sum();
        (0..n_rows).map(|row| if row == 0 { ROW } else { ROW_ABOVE }).collect()
    }
}

/// Returns how many rows a line takes: one goes on in the next where a character has no room.
fn n_rows(line: &str, columns: usize) -> usize {
    let mut is_escape = false;
    let is_shown = |it: &char| {
        let was_escape = is_escape;
        is_escape = if was_escape { *it != 'm' } else { *it == ESCAPE };
        !was_escape && !is_escape
    };
    let widths = line.chars().filter(is_shown).filter_map(UnicodeWidthChar::width);
    let (n_rows, _) =
        widths.fold(
            (1, 0),
            |(n_rows, at), width| {
                if columns < at + width { (n_rows + 1, width) } else { (n_rows, at + width) }
            },
        );
    n_rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_as_many_rows_as_it_is_broken_into() {
        for (line, columns, expected) in [
            ("", 5, 1),
            ("abcde", 5, 1),
            ("abcdef", 5, 2),
            ("标签标", 5, 2),
            ("标签标", 3, 3),
            ("\x1b[32mabcde\x1b[0m", 5, 1),
        ] {
            assert_eq!(n_rows(line, columns), expected, "{line:?} in {columns}");
        }
    }
}
