//! One event, one line of JSON.

use plimsoll_types::{Event, OLDEST_SCHEMA_VERSION, SCHEMA_VERSION};
use serde::Deserialize;

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
        "read line {line} of the event log: its schema version is {found}, this program reads versions \
         {OLDEST_SCHEMA_VERSION} to {supported}; use the program that wrote the log, or start a new run"
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
///
/// # Panics
///
/// Never: an event is plain data.
pub fn encode(event: &Event) -> String {
    let mut line = Vec::new();
    encode_into(&mut line, event);
    String::from_utf8(line).expect("JSON is text")
}

/// Appends an event as one line of JSON, as [`encode`] writes it: a buffer that is used again takes no memory.
///
/// # Panics
///
/// Never: an event is plain data.
pub fn encode_into(lines: &mut Vec<u8>, event: &Event) {
    serde_json::to_writer(&mut *lines, event).expect("plain data with text keys always serialises");
    lines.push(b'\n');
}

/// Reads the lines that [`encode`] wrote.
///
/// # Errors
///
/// [`LogError::BadLine`] when a line other than an unfinished last one is no event, [`LogError::OtherSchema`] when the
/// log is of another version.
pub fn decode(text: &str) -> Result<Log, LogError> {
    decode_bytes(text.as_bytes())
}

/// Reads a file of such lines; a kill may have cut the last one short in the middle of a character.
///
/// # Errors
///
/// As [`decode`]; a line with bytes that are no text is [`LogError::BadLine`].
pub fn decode_bytes(bytes: &[u8]) -> Result<Log, LogError> {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for line in bytes.split_inclusive(|it| *it == b'\n') {
        events.extend(decoder.line(line)?);
    }
    Ok(Log { events, truncated: decoder.truncated })
}

/// Reads such a file line by line, for whoever does not keep all of it.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    n_lines: usize,
    /// Whether the last line is incomplete.
    pub truncated: bool,
}

impl Decoder {
    /// Reads the next line, newline included, where it has one; of an empty one, or one that is cut short, there is no event.
    ///
    /// # Errors
    ///
    /// As [`decode_bytes`].
    pub fn line(&mut self, bytes: &[u8]) -> Result<Option<Event>, LogError> {
        self.n_lines += 1;
        let line = self.n_lines;
        let is_whole = bytes.ends_with(b"\n");
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() && !is_whole => {
                self.truncated = true;
                return Ok(None);
            }
            Err(_) => return Err(LogError::BadLine { line, problem: "it is not UTF-8".to_owned() }),
        };
        if text.trim().is_empty() {
            return Ok(None);
        }
        match decode_line(line, text) {
            Err(LogError::BadLine { .. }) if !is_whole => {
                self.truncated = true;
                Ok(None)
            }
            read => read.map(Some),
        }
    }
}

fn decode_line(line: usize, text: &str) -> Result<Event, LogError> {
    /// All that is read of a head of another version, which may have other fields.
    #[derive(Deserialize)]
    struct Head {
        event: String,
        schema_version: u64,
    }
    let event = serde_json::from_str(text);
    if let Ok(Event::RunStarted(_)) | Err(_) = event
        && let Ok(Head { event, schema_version }) = serde_json::from_str(text)
        && event == "run_started"
    {
        check_schema(line, schema_version)?;
    }
    event.map_err(|error| LogError::BadLine { line, problem: without_line(&error) })
}

fn check_schema(line: usize, found: u64) -> Result<(), LogError> {
    if (u64::from(OLDEST_SCHEMA_VERSION)..=u64::from(SCHEMA_VERSION)).contains(&found) {
        return Ok(());
    }
    Err(LogError::OtherSchema { line, found, supported: SCHEMA_VERSION })
}

/// The parser sees one line at a time, so its own line number is always 1.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}
