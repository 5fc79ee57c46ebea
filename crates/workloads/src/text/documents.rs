//! Reading the documents of a folder.

use std::io::Read;
use std::path::Path;

use plimsoll_train::BadSample;
use plimsoll_types::Bytes;

use super::config::CorpusConfig;
use super::demand::Demand;
use super::error::TextError;
use super::sections::sections;
use crate::files::{files, open_file};
use crate::room::Room;
use crate::split::{Divided, Shares};
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
    read: Vec<Document>,
    /// Files that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
    /// Whether there is one file alone, which is divided by its sections.
    is_single: bool,
}

impl Document {
    /// Returns its natural sections, of which there is at least one.
    pub(crate) fn sections(&self) -> Vec<&str> {
        sections(&self.text, self.is_markdown)
    }
}

impl Documents {
    /// Reads all `.txt` and `.md` files below a folder, at least two, or one file of any name.
    pub(crate) fn read(config: &CorpusConfig, watch: Watch<'_>) -> Result<Self, TextError> {
        if config.folder.is_file() {
            return Self::single(config);
        }
        let (paths, mut found, mut demand) = (files(&config.folder)?, Self::default(), Demand::new());
        for (at, path) in paths.iter().enumerate() {
            tell(watch, at, paths.len())?;
            let name = path.strip_prefix(&config.folder).unwrap_or(path).display();
            let document = match markdown(path) {
                Some(is_markdown) => document(path, is_markdown, &config.room, &mut demand),
                None => Ok(Err("neither .txt nor .md")),
            };
            match document {
                Ok(Ok(document)) => found.read.push(document),
                Ok(Err(reason)) => found.skipped.push(format!("{name}: {reason}")),
                Err(error) => match error.reason_to_skip() {
                    Some(reason) if config.bad_document == BadSample::Skip => {
                        found.skipped.push(format!("{name}: {reason}"));
                    }
                    _ => return Err(error),
                },
            }
        }
        let n_found = found.read.len();
        if n_found < 2 {
            let (folder, files) = (config.folder.clone(), paths.len());
            return Err(TextError::TooFew { folder, found: n_found, files });
        }
        Ok(found)
    }

    /// Reads one file, which must have two sections.
    fn single(config: &CorpusConfig) -> Result<Self, TextError> {
        let path = &config.folder;
        let document = document(path, markdown(path).unwrap_or(false), &config.room, &mut Demand::new())?.ok();
        let found = document.as_ref().map_or(0, |it| it.sections().len());
        match document {
            Some(document) if 2 <= found => Ok(Self { read: vec![document], skipped: Vec::new(), is_single: true }),
            _ => Err(TextError::OneSection { path: path.clone(), found }),
        }
    }

    /// Returns of each section to train on, in the order of [`Self::split`], which document it is of.
    pub(crate) fn trained_on(&self, shares: Shares) -> Vec<u32> {
        let of_document = |(number, document): (u32, &Document)| vec![number; document.sections().len()];
        let of_documents = (0..).zip(&self.read).map(of_document);
        let parts: Vec<_> =
            if self.is_single { of_documents.flatten().map(|it| vec![it]).collect() } else { of_documents.collect() };
        shares.divide(0, parts).train.into_iter().flatten().collect()
    }

    /// Returns the sections to train on and those that are held out, by whole documents where there are several.
    pub(crate) fn split(&self, shares: Shares) -> Divided<&str> {
        let of_documents = self.read.iter().map(Document::sections);
        let parts: Vec<_> =
            if self.is_single { of_documents.flatten().map(|it| vec![it]).collect() } else { of_documents.collect() };
        shares.divide(0, parts).map(|parts| parts.into_iter().flatten().collect())
    }
}

/// Says of a document whether it is Markdown; of another file nothing.
fn markdown(path: &Path) -> Option<bool> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "txt" => Some(false),
        "md" => Some(true),
        _ => None,
    }
}

/// Reads a file that leaves room for its tokens; one that is no document has a reason.
fn document(
    path: &Path,
    is_markdown: bool,
    room: &Room,
    demand: &mut Demand,
) -> Result<Result<Document, &'static str>, TextError> {
    let failed = |source| TextError::Io { path: path.to_owned(), source };
    let mut file = open_file(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let checked = |needed: Bytes, longest: Option<u64>| match room.left() {
        left if left < needed => {
            let (path, size, capacity) = (path.to_owned(), Bytes(size), room.capacity_for(needed));
            Err(TextError::TooLarge { path, size, needed, left, capacity, longest: longest.map(Bytes) })
        }
        _ => Ok(()),
    };
    checked(demand.with_file(size), None)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.read_to_end(&mut bytes).map_err(failed)?;
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
