//! What can be wrong with a folder of documents.

use std::io;
use std::path::PathBuf;

use plimsoll_types::Bytes;

use super::vocabulary::{LEAST_VOCABULARY, MOST_VOCABULARY};
use crate::files::FolderError;
use crate::outside::Outside;
use crate::survey::AboutFolder;
use crate::watch::Interrupted;

/// Why documents make no data set, or a tokenizer no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The folder's files cannot be listed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A document cannot be read.
    #[error("read {}: {source}; repair or remove it, or set `data.bad_sample = \"skip\"`", path.display())]
    Io {
        /// The document.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A document is no UTF-8.
    #[error(
        "read {}: byte {byte} is where it stops to be UTF-8; convert or remove it, or set `data.bad_sample = \"skip\"`",
        path.display()
    )]
    NotUtf8 {
        /// The document.
        path: PathBuf,
        /// Offset of the first byte that is no UTF-8, from 0.
        byte: usize,
    },
    /// A document takes more memory to read and tokenize than there is.
    #[error(
        "load {}: to read and tokenize its {size} takes up to {needed} with the documents before it, and {left} are left; \
         a capacity of at least {capacity}{} would help, or set `data.bad_sample = \"skip\"`",
        path.display(), smaller(*.longest)
    )]
    TooLarge {
        /// The document.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// What all documents up to it take at most.
        needed: Bytes,
        /// What there is for them.
        left: Bytes,
        /// The capacity that would do.
        capacity: Bytes,
        /// Its longest section, where it was read.
        longest: Option<Bytes>,
    },
    /// Too few documents are left.
    #[error(
        "find documents in {}: {found} of {files} files are .txt or .md documents that can be used, at least 2 are \
         needed (one to train on, one to validate on)",
        folder.display()
    )]
    TooFew {
        /// The folder.
        folder: PathBuf,
        /// Documents that can be used.
        found: usize,
        /// Files in the folder.
        files: usize,
    },
    /// One file alone cannot be divided.
    #[error(
        "find documents in {}: it is one file of {found} {}, at least 2 are needed (one to train on, one to validate \
         on): divide it by blank lines, in Markdown also by headings, or use a folder of several files",
        path.display(), if *found == 1 { "section" } else { "sections" }
    )]
    OneSection {
        /// The file.
        path: PathBuf,
        /// Its sections.
        found: usize,
    },
    /// A vocabulary of a size that cannot be.
    #[error("train a tokenizer: `text.vocabulary` is {0}, it must be from {LEAST_VOCABULARY} to {MOST_VOCABULARY}")]
    Vocabulary(usize),
    /// Folders that are sources, of which none has enough to divide.
    #[error(
        "find documents to validate on in {}: each of its {sources} folders is a source, and has one document of one section; \
         one of them needs two documents, or two sections divided by a blank line, or set `data.source_folders = false`",
        folder.display()
    )]
    NoneHeldOut {
        /// The folder.
        folder: PathBuf,
        /// The folders in it that have a document.
        sources: usize,
    },
    /// More sources than there are numbers for.
    #[error(
        "find documents in {}: {found} of its folders have documents, at most {most} can be sources; join some, or set \
         `data.source_folders = false`",
        folder.display()
    )]
    ManySources {
        /// The folder.
        folder: PathBuf,
        /// The folders in it that have a document.
        found: usize,
        /// The most that there may be.
        most: usize,
    },
    /// Sections without room for a token.
    #[error("cut documents into sections: `text.longest` is {0} tokens, it must be at least 1")]
    Longest(u32),
    /// Pieces that would repeat all of one another.
    #[error(
        "cut documents into sections: `text.overlap` is {overlap} tokens, it must be below `text.longest` ({longest})"
    )]
    Overlap {
        /// The tokens to repeat.
        overlap: u32,
        /// The most tokens of a piece.
        longest: u32,
    },
    /// A section has a length that is not wanted.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// A part of the documents has no section of a length that is wanted.
    #[error(
        "find sections of the lengths that are wanted: of {texts} to train on, or that are held out, none is left: {outside}"
    )]
    NoneLeft {
        /// Sections of the part.
        texts: usize,
        /// What is said of those whose lengths are not wanted.
        outside: String,
    },
    /// The tokens cannot be indexed.
    #[error("index the sections: {0}")]
    Sampler(#[from] plimsoll_sampler::IndexError),
    /// The tokenizer's library failed, or its file is none.
    #[error("use the tokenizer: {0}")]
    Tokenizer(String),
    /// Whoever watches has asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl AboutFolder for TextError {
    fn is_about_folder(&self) -> bool {
        matches!(self, Self::TooFew { .. } | Self::OneSection { .. } | Self::NoneHeldOut { .. })
    }
}

fn smaller(longest: Option<Bytes>) -> String {
    match longest {
        Some(longest) => format!(", blank lines in its longest section, which has {longest}, or a smaller document"),
        None => " or a smaller document".to_owned(),
    }
}

impl TextError {
    /// Says why a document is left out; `None` for what is wrong with more than the document.
    pub(crate) fn reason_to_skip(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } => Some(source.to_string()),
            Self::NotUtf8 { byte, .. } => Some(format!("no UTF-8 from byte {byte}")),
            Self::TooLarge { size, needed, left, .. } => Some(format!(
                "to read and tokenize its {size} takes up to {needed} with the documents before it, and {left} are left"
            )),
            _ => None,
        }
    }
}
