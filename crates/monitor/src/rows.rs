//! Tables that are written row by row.

use plimsoll_types::Event;
use serde::Serialize;

use crate::text::json;

/// A file of rows that is made while the events of a run are heard, whatever their number.
pub trait Table {
    /// Appends what an event has to say.
    fn hear(&mut self, event: &Event, text: &mut String);

    /// Appends what is left to say when all events were heard.
    fn end(&mut self, text: &mut String);

    /// Returns the table of events that are all there.
    fn of(mut self, events: &[Event]) -> String
    where
        Self: Sized,
    {
        let mut text = String::new();
        for it in events {
            self.hear(it, &mut text);
        }
        self.end(&mut text);
        text
    }
}

/// A JSON array with one element per line, which diffs and greps well.
#[derive(Debug, Default)]
pub(crate) struct JsonRows {
    has_begun: bool,
}

impl JsonRows {
    pub(crate) fn add(&mut self, row: &impl Serialize, text: &mut String) {
        *text += if std::mem::replace(&mut self.has_begun, true) { ",\n" } else { "[\n" };
        *text += &json(row);
    }

    pub(crate) fn end(&mut self, text: &mut String) {
        *text += if self.has_begun { "\n]\n" } else { "[\n\n]\n" };
    }
}

/// Rows at either end of a list that a person reads.
const SHOWN: usize = 100;

/// Returns what is shown of a list: all of it, or its first rows, what is said of those that are left out, and its last ones.
pub(crate) fn ends<T>(rows: &[T]) -> (&[T], Option<String>, &[T]) {
    let n_more = rows.len().saturating_sub(2 * SHOWN);
    if n_more == 0 {
        return (rows, None, &[]);
    }
    let told = format!("{n_more} more in training_report.json");
    (&rows[..SHOWN], Some(told), &rows[rows.len() - SHOWN..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_list_both_ends_are_shown() {
        let of = |n: usize| {
            let rows: Vec<usize> = (0..n).collect();
            let (first, told, last) = ends(&rows);
            (first.len(), told, last.first().copied())
        };
        assert_eq!((of(0), of(200)), ((0, None, None), (200, None, None)));
        assert_eq!(of(1203), (100, Some("1003 more in training_report.json".to_owned()), Some(1103)));
    }

    #[test]
    fn rows_are_an_array_however_many() {
        let of = |n: u8| {
            let (mut rows, mut text) = (JsonRows::default(), String::new());
            (0..n).for_each(|it| rows.add(&it, &mut text));
            rows.end(&mut text);
            serde_json::from_str::<Vec<u8>>(&text).unwrap().len()
        };
        assert_eq!([of(0), of(1), of(3)], [0, 1, 3]);
    }
}
