//! Text in columns, for a terminal.

use plimsoll_types::Bytes;

use crate::PlanView;

/// Writes names and values in two columns.
pub(crate) fn pairs(rows: &[(impl AsRef<str>, String)]) -> String {
    let width = rows.iter().map(|(name, _)| width(name.as_ref())).max().unwrap_or(0);
    rows.iter().fold(String::new(), |text, (name, value)| text + &format!("{:<width$}  {value}\n", name.as_ref()))
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
        let rows: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(cells).collect();
        columns(&rows, 5)
    }
}

/// Writes rows with their columns aligned: the first `n_right` at the right, the others at the left.
fn columns<const N: usize>(rows: &[[String; N]], n_right: usize) -> String {
    let widths: [usize; N] = std::array::from_fn(|it| rows.iter().map(|row| width(&row[it])).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let aligned = |(index, (text, width)): (usize, (&String, usize))| match index {
            _ if index < n_right => format!("{text:>width$}"),
            _ => format!("{text:<width$}"),
        };
        let texts: Vec<String> = row.iter().zip(widths).enumerate().map(aligned).collect();
        texts.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}
