//! Documents as sections of tokens, split into training, validation and test.

use std::sync::Arc;

use plimsoll_sampler::AdmitCounts;
use plimsoll_train::NamedSource;

use super::baseline::Baselines;
use super::config::{CorpusConfig, Cut, Together};
use super::documents::{Documents, Section};
use super::error::TextError;
use super::held_out::HeldOut;
use super::tokenized::Sections;
use super::tokenizer::Tokenizer;
use crate::outside::Gate;
use crate::split::Divided;
use crate::watch::{Interrupted, Watch, tell, unwatched};

/// The sections of a folder's documents.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Made of the training documents.
    pub tokenizer: Tokenizer,
    /// Sections to train on, source by source.
    pub train: Sections,
    /// What the sections to train on come from, in their order, where folders are sources: by name, in alphabetical order.
    pub sources: Vec<NamedSource>,
    /// The group of each section to train on, where groups stay together in one step.
    pub together: Option<Arc<[u32]>>,
    /// Sections of the documents that are held out to validate on.
    pub validation: HeldOut,
    /// Sections of those that are held out to test on, where there are any.
    pub test: Option<HeldOut>,
    /// Sections that are left out or truncated for their lengths.
    pub outside: AdmitCounts,
    /// Files that were left out, each with the reason.
    pub skipped: Vec<String>,
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
        tokenizer: impl FnOnce(&[Section<'_>], Watch<'_>) -> Result<Tokenizer, TextError>,
    ) -> Result<Self, TextError> {
        match config.cut {
            Cut { longest: 0, .. } => return Err(TextError::Longest(0)),
            Cut { longest, overlap } if longest <= overlap => return Err(TextError::Overlap { overlap, longest }),
            _ => (),
        }
        let mut documents = Documents::read(config, watch)?;
        let skipped = std::mem::take(&mut documents.skipped);
        let Divided { train, validation, test } = documents.split(config.shares);
        let tokenizer = tokenizer(&train, watch)?;
        let mut gate = Gate::new(config.lengths, "tokens");
        let names: Vec<String> = if config.source_folders { documents.names().cloned().collect() } else { Vec::new() };
        let (mut groups, mut n_pieces) = (Vec::new(), vec![0; names.len()]);
        let train = Sections::told(&tokenizer, (&train, config.cut), &mut gate, watch, |at| {
            groups.extend(config.together.map(|it| group(it, at, &train[at])));
            if let Some(n) = n_pieces.get_mut(usize::from(train[at].source)) {
                *n += 1;
            }
        })?;
        let together = config.together.map(|_| groups.into());
        let mut sections = |texts: &[Section<'_>]| Sections::try_new(&tokenizer, texts, config.cut, &mut gate, watch);
        let validation = sections(&validation)?;
        let test = if test.is_empty() { None } else { Some(sections(&test)?) };
        let of_all = names.into_iter().zip(n_pieces).map(|(name, n_samples)| NamedSource { name, n_samples });
        let sources = of_all.filter(|it| 0 < it.n_samples).collect();
        // What follows has the memory of the texts.
        drop(documents);
        let baselines = Baselines::of(&train, [&validation].into_iter().chain(&test), tokenizer.vocabulary());
        let byte_lengths = tokenizer.byte_lengths();
        let held_out = |sections| HeldOut::new(sections, &baselines, &byte_lengths);
        let (validation, test) = (held_out(validation), test.map(held_out));
        Ok(Self { tokenizer, train, sources, together, validation, test, outside: gate.counts, skipped })
    }
}

/// Returns the group of a section, of which this is the number.
fn group(together: Together, number: usize, section: &Section<'_>) -> u32 {
    match together {
        Together::Section => u32::try_from(number).unwrap_or(u32::MAX),
        Together::Document => section.document,
    }
}

/// Trains a tokenizer, as long as nobody asks for the end while it reads the texts.
pub(super) fn learnt(texts: &[Section<'_>], vocabulary: usize, watch: Watch<'_>) -> Result<Tokenizer, TextError> {
    let mut read: Result<(), Interrupted> = Ok(());
    let texts_read = texts.iter().enumerate().map_while(|(at, section)| {
        read = tell(watch, at, texts.len());
        read.is_ok().then_some(section.text)
    });
    let tokenizer = Tokenizer::train(texts_read.fuse(), vocabulary);
    read?;
    tokenizer
}
