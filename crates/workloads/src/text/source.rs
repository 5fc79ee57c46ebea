//! Sections as training samples.

use std::sync::Arc;

use plimsoll_train::{Draw, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, StepShape};

use super::buffer::TokenBuffer;
use super::corpus::Corpus;
use super::tokenized::Sections;

/// Tokens by which a section is known to people.
const SHOWN_TOKENS: usize = 12;

/// Every training section once per epoch.
#[derive(Debug)]
pub struct TextSource(Arc<Corpus>);

/// The tokens of a section: one more than it predicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextItem(Vec<u16>);

impl TextSource {
    /// Trains on a corpus.
    pub fn new(corpus: Arc<Corpus>) -> Self {
        Self(corpus)
    }

    fn sections(&self) -> &Sections {
        &self.0.train
    }

    /// Returns the first words of a section.
    fn beginning(&self, id: u64) -> String {
        let known = u32::try_from(id).ok().filter(|id| u64::from(*id) < self.n_samples());
        let tokens = known.map_or(&[][..], |id| self.sections().piece(id));
        self.0.tokenizer.decode(&tokens[..tokens.len().min(SHOWN_TOKENS)]).unwrap_or_default()
    }
}

impl Item for TextItem {
    fn length(&self) -> u32 {
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }

    fn bytes(&self) -> Bytes {
        Bytes(size_of_val(&self.0[..]) as u64)
    }
}

impl Source for TextSource {
    type Item = TextItem;
    type Buffer = TokenBuffer;

    fn n_samples(&self) -> u64 {
        self.sections().len() as u64
    }

    fn lengths(&self) -> Lengths {
        Lengths::Known(self.sections().index().clone())
    }

    fn describe(&self, id: u64) -> String {
        format!("the section that begins {:?}", self.beginning(id))
    }

    fn smaller(&self) -> &'static str {
        "a lower `text.longest`, which cuts it"
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<TextItem, SourceError> {
        let known = u32::try_from(id).ok().filter(|id| u64::from(*id) < self.n_samples());
        let reason = || format!("there are {} sections", self.n_samples());
        let id = known.ok_or_else(|| SourceError { sample_id: id, reason: reason() })?;
        Ok(TextItem(self.sections().piece(id).to_vec()))
    }

    fn buffer_bytes(&self, largest: StepShape) -> Bytes {
        TokenBuffer::byte_capacity(largest)
    }

    fn buffer(&self, largest: StepShape) -> TokenBuffer {
        TokenBuffer::with_capacity(largest)
    }

    fn collate(&self, draw: &Draw, items: &[TextItem], buffer: &mut TokenBuffer) -> Result<(), SourceError> {
        buffer.clear();
        let mut rest = items;
        for part in &draw.parts {
            let (samples, after) = rest.split_at(part.ids.len());
            if let Some((item, id)) = samples.iter().zip(&part.ids).find(|(item, _)| part.edge < item.length()) {
                let reason = format!("it has {} tokens, its edge is {}", item.length(), part.edge);
                return Err(SourceError { sample_id: *id, reason });
            }
            buffer.push(part.edge, samples.iter().map(|item| &item.0[..]));
            rest = after;
        }
        Ok(())
    }
}
