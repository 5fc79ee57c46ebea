//! Reading the documents of a folder.

use std::fs;
use std::path::Path;

use plimsoll_train::BadSample;

use super::error::TextError;
use super::sections::sections;
use crate::files::files;

/// One document.
pub(crate) struct Document {
    is_markdown: bool,
    text: String,
}

/// The documents of a folder, in the order of their paths.
#[derive(Default)]
pub(crate) struct Documents {
    pub(crate) documents: Vec<Document>,
    /// Files that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Document {
    /// Returns its natural sections, of which there is at least one.
    pub(crate) fn sections(&self) -> Vec<&str> {
        sections(&self.text, self.is_markdown)
    }
}

impl Documents {
    /// Reads all `.txt` and `.md` files below a folder, at least two.
    pub(crate) fn read(folder: &Path, bad_document: BadSample) -> Result<Self, TextError> {
        let (paths, mut read) = (files(folder)?, Self::default());
        for path in &paths {
            let name = path.strip_prefix(folder).unwrap_or(path).display();
            match document(path) {
                Ok(Ok(document)) => read.documents.push(document),
                Ok(Err(reason)) => read.skipped.push(format!("{name}: {reason}")),
                Err(TextError::NotUtf8 { byte, .. }) if bad_document == BadSample::Skip => {
                    read.skipped.push(format!("{name}: no UTF-8 from byte {byte}"));
                }
                Err(error) => return Err(error),
            }
        }
        let (found, files) = (read.documents.len(), paths.len());
        if found < 2 {
            return Err(TextError::TooFew { folder: folder.to_owned(), found, files });
        }
        Ok(read)
    }
}

/// Reads a file; one that is no document has a reason.
fn document(path: &Path) -> Result<Result<Document, &'static str>, TextError> {
    let extension = path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
    let is_markdown = match extension.as_deref() {
        Some("txt") => false,
        Some("md") => true,
        _ => return Ok(Err("neither .txt nor .md")),
    };
    let bytes = fs::read(path).map_err(|source| TextError::Io { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        TextError::NotUtf8 { path: path.to_owned(), byte }
    })?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(if text.trim().is_empty() { Err("empty") } else { Ok(Document { is_markdown, text }) })
}
