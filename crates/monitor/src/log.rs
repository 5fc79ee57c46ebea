//! One event, one line of JSON.

use plimsoll_types::{Event, SCHEMA_VERSION};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde_json::{Map, Value};

use crate::text::json;

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The events, in the order in which they were written.
    pub events: Vec<Event>,
    /// Whether the last line is incomplete, because the run was killed while it wrote.
    ///
    /// Whoever appends to such a log first cuts off what follows its last newline.
    pub truncated: bool,
}

/// A text that is no log, or not one of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A line is no event.
    #[error(
        "read line {line} of the event log: {problem}; \
         a line holds one event in JSON, such as {{\"event\":\"epoch_done\",\"epoch\":0,\"step\":12,\"samples\":96}}"
    )]
    BadLine {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The log was written by another version of the program.
    #[error(
        "read line {line} of the event log: its schema version is {found}, this program reads version {supported}; \
         use the program that wrote the log, or start a new run"
    )]
    OtherSchema {
        /// The line, from 1.
        line: usize,
        /// The log's version.
        found: u64,
        /// [`SCHEMA_VERSION`] of this program.
        supported: u32,
    },
}

/// Writes an event as one line of JSON, newline included.
///
/// JSON has no NaN and no infinity: a loss, norm or metric that is not finite is written as `null`, and [`decode`]
/// reads it as NaN.
pub fn encode(event: &Event) -> String {
    json(event) + "\n"
}

/// Reads the lines that [`encode`] wrote.
///
/// # Errors
///
/// [`LogError::BadLine`] when a line other than an unfinished last one is no event, [`LogError::OtherSchema`] when the
/// log is of another version.
pub fn decode(text: &str) -> Result<Log, LogError> {
    let mut log = Log::default();
    for (index, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match decode_line(index + 1, line) {
            Ok(event) => log.events.push(event),
            Err(LogError::BadLine { .. }) if !line.ends_with('\n') => log.truncated = true,
            Err(error) => return Err(error),
        }
    }
    Ok(log)
}

/// Reads a file of such lines; a kill may have cut the last one short in the middle of a character.
///
/// # Errors
///
/// As [`decode`]; a line with bytes that are no text is [`LogError::BadLine`].
pub fn decode_bytes(bytes: &[u8]) -> Result<Log, LogError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => decode(text),
        Err(error) if error.error_len().is_none() => {
            let (whole, _) = bytes.split_at(error.valid_up_to());
            decode(&String::from_utf8_lossy(whole)).map(|log| Log { truncated: true, ..log })
        }
        Err(error) => {
            let line = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count() + 1;
            Err(LogError::BadLine { line, problem: "it is not UTF-8".to_owned() })
        }
    }
}

fn decode_line(line: usize, text: &str) -> Result<Event, LogError> {
    // The slow way costs a second parse, and only lines with a missing number or a fault need it.
    let event = serde_json::from_str(text).or_else(|_| decode_patiently(line, text))?;
    if let Event::RunStarted(start) = &event {
        check_schema(line, start.schema_version.into())?;
    }
    Ok(event)
}

fn decode_patiently(line: usize, text: &str) -> Result<Event, LogError> {
    let bad = |error: serde_json::Error| LogError::BadLine { line, problem: without_line(&error) };
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(bad)?;
    // The version comes first: another version may have other fields.
    if fields.get("event").is_some_and(|it| it == "run_started") {
        fields.get("schema_version").and_then(Value::as_u64).map_or(Ok(()), |found| check_schema(line, found))?;
    }
    let fields = fields.into_iter().map(|(name, value)| {
        let field = if value.is_null() && MEASURED.contains(&name.as_str()) { Field::Nan } else { Field::Json(value) };
        (name, field)
    });
    Event::deserialize(MapDeserializer::new(fields)).map_err(bad)
}

fn check_schema(line: usize, found: u64) -> Result<(), LogError> {
    if found == u64::from(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(LogError::OtherSchema { line, found, supported: SCHEMA_VERSION })
}

/// The parser sees one line at a time, so its own line number is always 1.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// Fields of events that a diverging model makes NaN or infinite.
const MEASURED: [&str; 4] = ["loss", "gradient_norm", "metric", "baseline"];

enum Field {
    Json(Value),
    Nan,
}

impl IntoDeserializer<'_, serde_json::Error> for Field {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Self::Json(value) => value.deserialize_any(visitor),
            Self::Nan => visitor.visit_f64(f64::NAN),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
