//! The list of samples: `labels.csv`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_train::BadSample;

use super::fault::DataError;

/// The name of the list.
pub(crate) const LABELS: &str = "labels.csv";

/// One sample of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Path below the folder.
    pub(crate) path: String,
    pub(crate) label: String,
}

/// The list, read.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) rows: Vec<Row>,
    /// Lines that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
}

/// Reads the list of a folder; `classes` are the labels that there may be, all if there are none.
pub(crate) fn read(folder: &Path, classes: &[String], bad_sample: BadSample) -> Result<Labels, DataError> {
    if !folder.is_dir() {
        return Err(DataError::NoFolder(folder.to_owned()));
    }
    let path = folder.join(LABELS);
    let text = fs::read_to_string(&path).map_err(|source| DataError::Labels { path: path.clone(), source })?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let header = lines.next().map_or("", |(_, line)| line);
    let columns = Columns::find(header).map_err(|column| {
        let found = header.to_owned();
        DataError::Header { path: path.clone(), column, found }
    })?;
    let (mut labels, mut seen) = (Labels::default(), BTreeMap::new());
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        match columns.row(line).and_then(|row| known(row, classes)).and_then(|row| unique(row, at + 1, &mut seen)) {
            Ok(row) => labels.rows.push(row),
            Err(reason) if bad_sample == BadSample::Skip => {
                labels.skipped.push(format!("{LABELS}, line {}: {reason}", at + 1));
            }
            Err(reason) => return Err(DataError::Line { path, line: at + 1, reason }),
        }
    }
    Ok(labels)
}

/// Where the columns are.
struct Columns {
    path: usize,
    label: usize,
    n: usize,
}

impl Columns {
    /// Finds the columns by their names, or returns the name of the one that is missing.
    fn find(header: &str) -> Result<Self, &'static str> {
        let names = fields(header).unwrap_or_default();
        let find = |name: &'static str| names.iter().position(|it| it.trim() == name).ok_or(name);
        Ok(Self { path: find("path")?, label: find("label")?, n: names.len() })
    }

    fn row(&self, line: &str) -> Result<Row, String> {
        let fields = fields(line)?;
        if fields.len() != self.n {
            return Err(format!("it has {} fields, and the first line names {} columns", fields.len(), self.n));
        }
        let row = Row { path: fields[self.path].trim().to_owned(), label: fields[self.label].trim().to_owned() };
        match (row.path.is_empty(), row.label.is_empty()) {
            (false, false) => Ok(row),
            (true, _) => Err("its path is empty".to_owned()),
            (_, true) => Err("its label is empty".to_owned()),
        }
    }
}

/// Divides a line at its commas; a field in quotes may have commas, and doubled quotes for quotes.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(it) = characters.next() {
        let last = fields.len() - 1;
        match it {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => fields[last].push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields[last].push(it),
        }
    }
    if is_quoted { Err("a quote is not closed".to_owned()) } else { Ok(fields) }
}

fn known(row: Row, classes: &[String]) -> Result<Row, String> {
    if classes.is_empty() || classes.contains(&row.label) {
        return Ok(row);
    }
    Err(format!("its label {:?} is none of `data.classes`: {}", row.label, classes.join(", ")))
}

/// Refuses a file that is there twice: it could be trained on and held out at once.
fn unique(row: Row, line: usize, seen: &mut BTreeMap<String, usize>) -> Result<Row, String> {
    match seen.insert(row.path.clone(), line) {
        None => Ok(row),
        Some(before) => Err(format!("{} is on line {before} already", row.path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(fields(r#"a,"b,""c""",,d"#).unwrap(), ["a", "b,\"c\"", "", "d"]);
        assert_eq!(fields("\"a,b").unwrap_err(), "a quote is not closed");
    }

    #[test]
    fn columns_are_found_by_name() {
        let columns = Columns::find("speaker,label,path").unwrap();
        let row = columns.row("x, 7 ,a.wav").unwrap();
        assert_eq!(row, Row { path: "a.wav".to_owned(), label: "7".to_owned() });
        assert_eq!(columns.row("x,7").unwrap_err(), "it has 2 fields, and the first line names 3 columns");
        assert_eq!(columns.row("x,,a.wav").unwrap_err(), "its label is empty");
        assert_eq!(Columns::find("path,text").err(), Some("label"));
    }
}
