//! Documents as sections of tokens, split into training and validation.

use std::path::PathBuf;

use plimsoll_train::BadSample;

use super::documents::Documents;
use super::error::TextError;
use super::tokenized::Sections;
use super::tokenizer::Tokenizer;
use super::unigram::unigram_cross_entropy;
use crate::room::Room;
use crate::watch::{Interrupted, Watch, tell, unwatched};

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusConfig {
    /// The folder, read recursively; or one file.
    pub folder: PathBuf,
    /// The part of the documents that is held out, rounded to whole documents, at least one; of one file, of its
    /// sections.
    pub validation_share: f64,
    /// What becomes of documents that are no UTF-8, or too large.
    pub bad_document: BadSample,
    /// Tokens that the tokenizer may have.
    pub vocabulary: usize,
    /// The most tokens of a section that are predicted; a longer one is cut into equal pieces.
    pub longest: u32,
    /// What loading may use.
    pub room: Room,
}

/// The sections of a folder's documents.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Made of the training documents.
    pub tokenizer: Tokenizer,
    /// Sections to train on.
    pub train: Sections,
    /// Sections of the documents that are held out.
    pub validation: Sections,
    /// Files that were left out, each with the reason.
    pub skipped: Vec<String>,
    /// Cross entropy in nats of the tokens held out under the frequencies of the training tokens.
    pub baseline: f64,
}

impl Corpus {
    /// Reads all documents of a folder, holds some out, and trains a tokenizer on the others.
    ///
    /// # Errors
    ///
    /// [`TextError`] names the file or folder and what would be right.
    pub fn read(config: &CorpusConfig) -> Result<Self, TextError> {
        Self::read_watched(config, &mut unwatched)
    }

    /// As [`Self::read`], for someone who wants to know how far it is.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and [`TextError::Interrupted`].
    pub fn read_watched(config: &CorpusConfig, watch: Watch<'_>) -> Result<Self, TextError> {
        Self::read_with(config, watch, |texts, watch| learnt(texts, config.vocabulary, watch))
    }

    /// Reads all documents of a folder for a tokenizer that there is; [`CorpusConfig::vocabulary`] has no effect.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn tokenized(config: &CorpusConfig, tokenizer: Tokenizer) -> Result<Self, TextError> {
        Self::read_with(config, &mut unwatched, |_, _| Ok(tokenizer))
    }

    fn read_with(
        config: &CorpusConfig,
        watch: Watch<'_>,
        tokenizer: impl FnOnce(&[&str], Watch<'_>) -> Result<Tokenizer, TextError>,
    ) -> Result<Self, TextError> {
        if config.longest == 0 {
            return Err(TextError::Longest(config.longest));
        }
        let documents = Documents::read(config, watch)?;
        let (train, validation) = documents.split(config.validation_share);
        let tokenizer = tokenizer(&train, watch)?;
        let train = Sections::try_new(&tokenizer, &train, config.longest, watch)?;
        let validation = Sections::try_new(&tokenizer, &validation, config.longest, watch)?;
        let baseline = unigram_cross_entropy(train.targets(), validation.targets(), tokenizer.vocabulary());
        Ok(Self { tokenizer, train, validation, skipped: documents.skipped, baseline })
    }
}

/// Trains a tokenizer, as long as nobody asks for the end while it reads the texts.
pub(super) fn learnt(texts: &[&str], vocabulary: usize, watch: Watch<'_>) -> Result<Tokenizer, TextError> {
    let mut read: Result<(), Interrupted> = Ok(());
    let texts_read = texts.iter().enumerate().map_while(|(at, text)| {
        read = tell(watch, at, texts.len());
        read.is_ok().then_some(*text)
    });
    let tokenizer = Tokenizer::train(texts_read.fuse(), vocabulary);
    read?;
    tokenizer
}
