//! Text in columns, for a terminal.

use plimsoll_types::Bytes;
use unicode_width::UnicodeWidthStr;

use crate::PlanView;
use crate::text::wrapped;

/// Columns that a value has at least beside its name; where there are fewer, it stands below.
const LEAST: usize = 24;
/// Columns by which such a value is indented.
const INDENT: usize = 2;

/// Writes names and values in two columns, no wider than this but for words that are; a long value goes on below itself.
pub(crate) fn pairs(rows: &[(impl AsRef<str>, String)], most: usize) -> String {
    let names = rows.iter().map(|(name, _)| width(name.as_ref())).max().unwrap_or(0);
    let (indent, is_beside) = if LEAST + names + GAP <= most { (names + GAP, true) } else { (INDENT, false) };
    let mut text = String::new();
    for (name, value) in rows {
        text += name.as_ref();
        let lines = wrapped(value, most.saturating_sub(indent));
        for (at, line) in lines.iter().enumerate() {
            let before = if is_beside && at == 0 {
                " ".repeat(indent - width(name.as_ref()))
            } else {
                "\n".to_owned() + &" ".repeat(indent)
            };
            text += &(before + line);
        }
        text.push('\n');
    }
    text
}

/// Writes a size, or a dash where there is none.
pub(crate) fn size(bytes: Option<Bytes>) -> String {
    bytes.map_or("–".to_owned(), |it| it.to_string())
}

impl PlanView {
    /// Writes the cells as a table for the terminal, a row for each in the order given.
    pub fn to_table(&self) -> String {
        let header = ["batch", &self.edge_name, "reserved", "in use", "share of budget", "fits", "source"];
        let cells = self.cells.iter().map(|it| {
            let share = it.percent(self.budget, 1).map_or("–".to_owned(), |it| it + " %");
            let fits = match it.reserved {
                None => "never",
                Some(_) if it.fits(self.budget) => "yes",
                Some(_) => "no",
            };
            let (batch, edge) = (it.shape.samples.to_string(), it.shape.extent().to_string());
            [batch, edge, size(it.reserved), size(it.in_use), share, fits.to_owned(), it.source.to_string()]
        });
        let rows: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(cells).map(Vec::from).collect();
        columns(&rows, 5)
    }
}

/// Writes rows with their columns aligned: the first `n_right` at the right, the others at the left.
fn columns(rows: &[Vec<String>], n_right: usize) -> String {
    let widths = widths(rows);
    let line = |row: &Vec<String>| {
        let aligned = |(index, (text, widest)): (usize, (&String, &usize))| {
            let gap = " ".repeat(widest.saturating_sub(width(text)));
            if index < n_right { gap + text } else { text.clone() + &gap }
        };
        let texts: Vec<String> = row.iter().zip(&widths).enumerate().map(aligned).collect();
        texts.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Writes rows below their names with the columns aligned at the left: as many beside the first as have room, and the others
/// below, each time beside the first.
pub(crate) fn columns_wrapped(names: &[String], rows: &[Vec<String>], width: usize) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(names.to_vec()).chain(rows.iter().cloned()).collect();
    let widths = widths(&rows);
    let (mut tables, mut from) = (Vec::new(), 1);
    while from < names.len() {
        let mut taken = widths[0];
        let fits = |column: &usize| {
            taken += GAP + column;
            taken <= width
        };
        let n = widths[from..].iter().copied().take_while(fits).count().max(1);
        let part = |row: &Vec<String>| std::iter::once(&row[0]).chain(&row[from..from + n]).cloned().collect();
        tables.push(columns(&rows.iter().map(part).collect::<Vec<_>>(), 0));
        from += n;
    }
    tables.join("\n")
}

/// Spaces between two columns.
const GAP: usize = 2;

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let n = rows.first().map_or(0, Vec::len);
    (0..n).map(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0)).collect()
}

fn width(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_on_below_itself_or_stands_below_its_name() {
        let rows =
            [("peak", "12.00 MiB: training 12.00 MiB, validation 8.00 MiB".to_owned()), ("steps", "6".to_owned())];
        assert_eq!(pairs(&rows, 40), "peak   12.00 MiB: training 12.00 MiB,\n       validation 8.00 MiB\nsteps  6\n");
        assert_eq!(pairs(&rows, usize::MAX).lines().count(), 2);
        assert_eq!(pairs(&rows, 30), "peak\n  12.00 MiB: training 12.00\n  MiB, validation 8.00 MiB\nsteps\n  6\n");
    }
}
