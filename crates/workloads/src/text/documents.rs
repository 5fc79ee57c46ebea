//! Reading the documents of a folder.

use std::fs;
use std::path::Path;

use plimsoll_train::BadSample;
use plimsoll_types::Bytes;

use super::corpus::CorpusConfig;
use super::demand::Demand;
use super::error::TextError;
use super::sections::sections;
use crate::files::files;
use crate::room::Room;
use crate::watch::{Watch, tell};

/// What some editors write before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

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
    pub(crate) fn read(config: &CorpusConfig, watch: Watch<'_>) -> Result<Self, TextError> {
        let (paths, mut read, mut demand) = (files(&config.folder)?, Self::default(), Demand::new());
        for (at, path) in paths.iter().enumerate() {
            tell(watch, at, paths.len())?;
            let name = path.strip_prefix(&config.folder).unwrap_or(path).display();
            match document(path, &config.room, &mut demand) {
                Ok(Ok(document)) => read.documents.push(document),
                Ok(Err(reason)) => read.skipped.push(format!("{name}: {reason}")),
                Err(error) => match error.reason_to_skip() {
                    Some(reason) if config.bad_document == BadSample::Skip => {
                        read.skipped.push(format!("{name}: {reason}"));
                    }
                    _ => return Err(error),
                },
            }
        }
        let (found, files) = (read.documents.len(), paths.len());
        if found < 2 {
            return Err(TextError::TooFew { folder: config.folder.clone(), found, files });
        }
        Ok(read)
    }
}

/// Reads a file that leaves room for its tokens; one that is no document has a reason.
fn document(path: &Path, room: &Room, demand: &mut Demand) -> Result<Result<Document, &'static str>, TextError> {
    let extension = path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
    let is_markdown = match extension.as_deref() {
        Some("txt") => false,
        Some("md") => true,
        _ => return Ok(Err("neither .txt nor .md")),
    };
    let failed = |source| TextError::Io { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(failed)?.len();
    let checked = |needed: Bytes, longest: Option<u64>| match room.left() {
        left if left < needed => {
            let (path, size, capacity) = (path.to_owned(), Bytes(size), room.capacity_for(needed));
            Err(TextError::TooLarge { path, size, needed, left, capacity, longest: longest.map(Bytes) })
        }
        _ => Ok(()),
    };
    checked(demand.with_file(size), None)?;
    let bytes = fs::read(path).map_err(failed)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        TextError::NotUtf8 { path: path.to_owned(), byte }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.replace_range(..BYTE_ORDER_MARK.len_utf8(), "");
    }
    if text.trim().is_empty() {
        return Ok(Err("empty"));
    }
    let document = Document { is_markdown, text };
    let sections = document.sections();
    let (looked, longest) =
        (demand.look(document.text.len(), &sections), sections.iter().map(|it| it.len() as u64).max());
    checked(demand.with(&looked), longest)?;
    demand.add(looked);
    Ok(Ok(document))
}
