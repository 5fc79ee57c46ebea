//! The list of samples: `labels.csv`.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use plimsoll_train::BadSample;

use super::config::RecordingsConfig;
use super::fault::DataError;
use crate::listed::{Lines, Listed};

/// The name of the list.
pub(crate) const LABELS: &str = "labels.csv";

/// One sample of the list.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    /// Path below the folder.
    pub(crate) path: String,
    pub(crate) label: String,
    /// What it must not be parted from, where the list is divided by such groups.
    pub(crate) group: Option<String>,
    /// What it comes from, where the list says so.
    pub(crate) source: Option<String>,
    /// What it stays together with, where the list says so.
    pub(crate) together: Option<String>,
    /// How often it is drawn beside the others, where the list says so.
    pub(crate) weight: Option<f64>,
}

/// The list, read.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) rows: Vec<Row>,
    /// Lines that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
}

/// Reads the list of a folder, as far as it has labels that there may be.
pub(crate) fn read(config: &RecordingsConfig) -> Result<Labels, DataError> {
    let RecordingsConfig { folder, classes, bad_sample, .. } = config;
    if !folder.is_dir() {
        return Err(DataError::NoFolder(folder.clone()));
    }
    let path = folder.join(LABELS);
    let unread = |source| DataError::Labels { path: path.clone(), source };
    let mut lines = Lines::open(&path).map_err(unread)?;
    let header = text(lines.next()).map_err(unread)?.unwrap_or(Ok(""));
    let header = header.map_err(|reason| DataError::Line { path: path.clone(), line: 1, reason })?;
    let header = header.trim_start_matches('\u{feff}');
    let columns = Columns::find(header, config).map_err(|Missing { column, key }| {
        let (path, column, found) = (path.clone(), column.to_owned(), header.to_owned());
        match key {
            Some(key) => DataError::Column { path, key, column, found },
            None => DataError::Header { path, column, found },
        }
    })?;
    let (mut labels, mut seen, mut at) = (Labels::default(), BTreeMap::new(), 1);
    while let Some(line) = text(lines.next()).map_err(unread)? {
        at += 1;
        if line.as_ref().is_ok_and(|line| line.trim().is_empty()) {
            continue;
        }
        let row = line.and_then(|line| columns.row(line)).and_then(|row| known(row, classes));
        match row.and_then(|row| unique(row, at, &mut seen)) {
            Ok(row) => labels.rows.push(row),
            Err(reason) if *bad_sample == BadSample::Skip => {
                labels.skipped.push(format!("{LABELS}, line {at}: {reason}"));
            }
            Err(reason) => return Err(DataError::Line { path, line: at, reason }),
        }
    }
    Ok(labels)
}

/// A line without its end, or what is wrong with it; `None` after the last one.
type Text<'a> = Option<Result<&'a str, String>>;

/// Takes a line for text; a list of another encoding is none at all.
fn text(line: io::Result<Option<(usize, Listed<'_>)>>) -> io::Result<Text<'_>> {
    match line? {
        None => Ok(None),
        Some((_, Err(reason))) => Ok(Some(Err(reason))),
        Some((_, Ok(bytes))) => {
            let text =
                str::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not valid UTF-8"))?;
            Ok(Some(Ok(text.strip_suffix('\r').unwrap_or(text))))
        }
    }
}

/// Where the columns are.
struct Columns {
    path: usize,
    label: usize,
    group: Option<(String, usize)>,
    source: Option<(String, usize)>,
    together: Option<(String, usize)>,
    weight: Option<(String, usize)>,
    n: usize,
}

/// A column that a list does not have, and the key that names it, where one does.
#[derive(Debug, PartialEq, Eq)]
struct Missing<'a> {
    column: &'a str,
    key: Option<&'static str>,
}

impl Columns {
    /// Finds the columns by their names.
    fn find<'a>(header: &str, config: &'a RecordingsConfig) -> Result<Self, Missing<'a>> {
        let names = fields(header).unwrap_or_default();
        let find =
            |column: &'a str, key| names.iter().position(|it| it.trim() == column).ok_or(Missing { column, key });
        let find_given = |name: &'a Option<String>, key| {
            let found = name.as_deref().map(|name| find(name, Some(key)).map(|at| (name.to_owned(), at)));
            found.transpose()
        };
        Ok(Self {
            path: find("path", None)?,
            label: find("label", None)?,
            group: find_given(&config.group_column, "data.group_column")?,
            source: find_given(&config.source_column, "data.source_column")?,
            together: find_given(&config.together_column, "data.together")?,
            weight: find_given(&config.weight_column, "data.weight_column")?,
            n: names.len(),
        })
    }

    fn row(&self, line: &str) -> Result<Row, String> {
        let fields = fields(line)?;
        if fields.len() != self.n {
            return Err(format!("it has {} fields, and the first line names {} columns", fields.len(), self.n));
        }
        let field = |name: &str, at: usize| match fields[at].trim() {
            "" => Err(format!("its {name} is empty")),
            field => Ok(field.to_owned()),
        };
        let (path, label) = (field("path", self.path)?, field("label", self.label)?);
        let named = |it: &Option<(String, usize)>| it.as_ref().map(|(name, at)| field(name, *at)).transpose();
        let (group, source, together) = (named(&self.group)?, named(&self.source)?, named(&self.together)?);
        let weight = self.weight.as_ref().map(|(name, at)| weight(name, &field(name, *at)?)).transpose()?;
        Ok(Row { path, label, group, source, together, weight })
    }
}

fn weight(name: &str, field: &str) -> Result<f64, String> {
    let weight = field.parse::<f64>().ok().filter(|it| 0.0 <= *it && it.is_finite());
    weight.ok_or_else(|| format!("its {name} is {field:?}, a number from 0 is expected"))
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
        let config = |[group, source, together]: [Option<&str>; 3]| RecordingsConfig {
            group_column: group.map(str::to_owned),
            source_column: source.map(str::to_owned),
            together_column: together.map(str::to_owned),
            ..RecordingsConfig::new("data".into())
        };
        let row = |columns, line| Columns::find("speaker,label,path", &config(columns)).unwrap().row(line);
        let expected = |of: [Option<&str>; 3]| {
            let (path, label, [group, source, together]) =
                ("a.wav".to_owned(), "7".to_owned(), of.map(|it| it.map(str::to_owned)));
            Ok(Row { path, label, group, source, together, weight: None })
        };
        let (x, speaker) = (Some("x"), Some("speaker"));
        assert_eq!(row([None; 3], "x, 7 ,a.wav"), expected([None; 3]));
        assert_eq!(row([speaker, None, None], "x, 7 ,a.wav"), expected([x, None, None]));
        assert_eq!(row([speaker, Some("label"), speaker], "x, 7 ,a.wav"), expected([x, Some("7"), x]));
        assert_eq!(row([None; 3], ",7,a.wav"), expected([None; 3]));
        for columns in [[speaker, None, None], [None, speaker, None], [None, None, speaker]] {
            assert_eq!(row(columns, ",7,a.wav").unwrap_err(), "its speaker is empty");
        }
        let columns = Columns::find("speaker,label,path", &config([None; 3])).unwrap();
        assert_eq!(columns.row("x,7").unwrap_err(), "it has 2 fields, and the first line names 3 columns");
        assert_eq!(columns.row("x,,a.wav").unwrap_err(), "its label is empty");
        let missing = |header, columns, column, key| {
            assert_eq!(Columns::find(header, &config(columns)).err(), Some(Missing { column, key }));
        };
        missing("path,text", [None; 3], "label", None);
        missing("path,label", [Some("voice"), None, None], "voice", Some("data.group_column"));
        missing("path,label", [None, Some("corpus"), None], "corpus", Some("data.source_column"));
        missing("path,label", [None, None, Some("pair")], "pair", Some("data.together"));
    }

    #[test]
    fn a_weight_is_a_number_from_0() {
        let config =
            RecordingsConfig { weight_column: Some("weight".to_owned()), ..RecordingsConfig::new("data".into()) };
        let columns = Columns::find("path,label,weight", &config).unwrap();
        for (field, weight) in [("0", 0.0), (" 2.5", 2.5), ("1e3", 1000.0)] {
            assert_eq!(columns.row(&format!("a.wav,7,{field}")).unwrap().weight, Some(weight));
        }
        for field in ["-1", "much", "NaN", "inf"] {
            let reason = columns.row(&format!("a.wav,7,{field}")).unwrap_err();
            assert_eq!(reason, format!("its weight is {field:?}, a number from 0 is expected"));
        }
        assert_eq!(columns.row("a.wav,7,").unwrap_err(), "its weight is empty");
        let missing = Missing { column: "weight", key: Some("data.weight_column") };
        assert_eq!(Columns::find("path,label", &config).err(), Some(missing));
    }
}
