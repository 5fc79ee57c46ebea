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
    /// Whether the documents of each folder in it are a source of their own; not by default.
    pub source_folders: bool,
    /// The parts of the documents that are held out, or of one that is alone, of its sections; a tenth to validate on by default,
    /// and none to test on.
    pub shares: Shares,
    /// What becomes of documents that are no UTF-8, or too large.
    pub bad_document: BadSample,
    /// Tokens that the tokenizer may have; 2048 by default.
    pub vocabulary: usize,
    /// Which sections take part, by their predicted tokens before they are cut: to train on, and held out.
    pub lengths: Admit,
    /// How longer sections are cut.
    pub cut: Cut,
    /// What of the sections to train on stays together in one optimizer step.
    pub together: Option<Together>,
    /// What loading may use.
    pub room: Room,
}

/// How a section is cut into pieces, which are as equal as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The most tokens of a piece, those that it repeats included, and without the first boundary; 512 by default.
    pub longest: u32,
    /// The last tokens of a piece that the next one repeats: it sees them, and predicts them no more. Below `longest`; none by
    /// default.
    pub overlap: u32,
}

impl CorpusConfig {
    /// Reads this folder as it is done by default.
    pub fn new(folder: PathBuf, room: Room) -> Self {
        Self {
            folder,
            source_folders: false,
            shares: Shares::validating(0.1),
            bad_document: BadSample::Fail,
            vocabulary: 2048,
            lengths: Admit::default(),
            cut: Cut::default(),
            together: None,
            room,
        }
    }
}

impl Default for Cut {
    fn default() -> Self {
        Self { longest: 512, overlap: 0 }
    }
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
