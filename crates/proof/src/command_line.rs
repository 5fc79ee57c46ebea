//! What the command lines of the binaries have in common.

use std::ffi::OsString;

use lexopt::Arg::{Long, Short, Value};
use lexopt::Parser;

/// Returns the words of a command line without flags, or none where somebody asks how it is written.
///
/// # Errors
///
/// A sentence with `usage` that names the first flag: it is no name of a file.
pub fn words(mut args: Parser, usage: &str) -> Result<Option<Vec<OsString>>, String> {
    let mut words = Vec::new();
    loop {
        match args.next() {
            Ok(None) => return Ok(Some(words)),
            Ok(Some(Long("help") | Short('h'))) => return Ok(None),
            Ok(Some(Value(word))) => words.push(word),
            Ok(Some(flag)) => return Err(refused(&flag.unexpected(), usage)),
            Err(error) => return Err(refused(&error, usage)),
        }
    }
}

/// Says that a command line makes no sense, and how it is written.
pub fn refused(error: &lexopt::Error, usage: &str) -> String {
    format!("understand the command line: {error}; {usage}")
}
