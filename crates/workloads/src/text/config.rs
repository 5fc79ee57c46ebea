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
    /// What loading may use.
    pub room: Room,
}
