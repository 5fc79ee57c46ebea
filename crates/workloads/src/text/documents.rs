//! Reading the documents of a folder.

use std::collections::BTreeMap;
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

/// A section of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// The number of the source that its document is of.
    pub(crate) source: u16,
    /// The number of its document among all.
    pub(crate) document: u32,
    pub(crate) text: &'a str,
}

/// The source of documents that lie in no folder of their own.
const HERE: &str = ".";

/// The most sources: as many as there are numbers for them.
const MOST_SOURCES: usize = 1 << 16;

/// The documents of a folder.
#[derive(Default)]
pub(crate) struct Documents {
    /// Those of each source, in the order of their paths; all are of one without a name, unless folders are sources.
    sources: BTreeMap<String, Vec<Document>>,
    /// Files that were left out, each with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Document {
    /// Returns its natural sections, of which there is at least one.
    pub(crate) fn sections(&self) -> Vec<&str> {
        sections(&self.text, self.is_markdown)
    }

    fn sections_of(&self, source: u16, document: u32) -> Vec<Section<'_>> {
        self.sections().into_iter().map(|text| Section { source, document, text }).collect()
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
            let path_below = path.strip_prefix(&config.folder).unwrap_or(path);
            let name = path_below.display();
            let document = match markdown(path) {
                Some(is_markdown) => document(path, is_markdown, &config.room, &mut demand),
                None => Ok(Err("neither .txt nor .md")),
            };
            match document {
                Ok(Ok(document)) => {
                    let source = if config.source_folders { source_of(path_below) } else { String::new() };
                    found.add(source, document);
                }
                Ok(Err(reason)) => found.skipped.push(format!("{name}: {reason}")),
                Err(error) => match error.reason_to_skip() {
                    Some(reason) if config.bad_document == BadSample::Skip => {
                        found.skipped.push(format!("{name}: {reason}"));
                    }
                    _ => return Err(error),
                },
            }
        }
        let (folder, n_found, n_sources) = (config.folder.clone(), found.all().count(), found.sources.len());
        if n_found < 2 {
            return Err(TextError::TooFew { folder, found: n_found, files: paths.len() });
        }
        if MOST_SOURCES < n_sources {
            return Err(TextError::ManySources { folder, found: n_sources, most: MOST_SOURCES });
        }
        // Of one document alone the sections are divided, so that two are enough.
        if found.sources.values().all(|it| matches!(&it[..], [alone] if alone.sections().len() < 2)) {
            return Err(TextError::NoneHeldOut { folder, sources: n_sources });
        }
        Ok(found)
    }

    fn add(&mut self, source: String, document: Document) {
        self.sources.entry(source).or_default().push(document);
    }

    fn all(&self) -> impl Iterator<Item = &Document> {
        self.sources.values().flatten()
    }

    /// Returns the names of the sources, in the order of their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.sources.keys()
    }

    /// Reads one file, which must have two sections.
    fn single(config: &CorpusConfig) -> Result<Self, TextError> {
        let path = &config.folder;
        let document = document(path, markdown(path).unwrap_or(false), &config.room, &mut Demand::new())?.ok();
        let found = document.as_ref().map_or(0, |it| it.sections().len());
        match document {
            Some(document) if 2 <= found => {
                let mut alone = Self::default();
                alone.add(String::new(), document);
                Ok(alone)
            }
            _ => Err(TextError::OneSection { path: path.clone(), found }),
        }
    }

    /// Returns the sections to train on and those that are held out, source by source: of each by whole documents, where it has
    /// several.
    pub(crate) fn split(&self, shares: Shares) -> Divided<Section<'_>> {
        let (mut divided, mut numbers) = (Divided::default(), 0..);
        for (source, documents) in (0..).zip(self.sources.values()) {
            let of_documents = documents.iter().zip(&mut numbers).map(|(it, number)| it.sections_of(source, number));
            let parts: Vec<_> = match documents.len() {
                1 => of_documents.flatten().map(|it| vec![it]).collect(),
                _ => of_documents.collect(),
            };
            let parts = shares.divide(source.into(), parts);
            divided.extend(parts.map(|parts| parts.into_iter().flatten().collect()));
        }
        divided
    }
}

/// Names the folder that a path begins with.
fn source_of(path_below: &Path) -> String {
    let mut components = path_below.components();
    let first = components.next().filter(|_| components.next().is_some());
    first.map_or_else(|| HERE.to_owned(), |it| it.as_os_str().to_string_lossy().into_owned())
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
