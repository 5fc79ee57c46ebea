//! How a folder of documents is read.

use std::path::PathBuf;

use plimsoll_sampler::Admit;
use plimsoll_train::BadSample;

use crate::room::Room;
use crate::split::Shares;

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusConfig {
    /// The folder, read recursively; or one file.
    pub folder: PathBuf,
    /// The parts of the documents that are held out; of one file, of its sections.
    pub shares: Shares,
    /// What becomes of documents that are no UTF-8, or too large.
    pub bad_document: BadSample,
    /// Tokens that the tokenizer may have.
    pub vocabulary: usize,
    /// Which sections take part, by their predicted tokens before they are cut: to train on, and held out.
    pub lengths: Admit,
    /// The most tokens of a section that are predicted; a longer one is cut into equal pieces.
    pub longest: u32,
    /// What of the sections to train on stays together in one optimizer step.
    pub together: Option<Together>,
    /// What loading may use.
    pub room: Room,
}

/// What of the sections stays together in one optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// The pieces of a section that was cut.
    Section,
    /// All sections of a document.
    Document,
}

impl Together {
    /// Returns what a word means.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "section" => Some(Self::Section),
            "document" => Some(Self::Document),
            _ => None,
        }
    }
}
