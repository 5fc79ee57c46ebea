//! Sections as training samples.

use std::sync::Arc;

use plimsoll_sampler::{Groups, SampleIndex};
use plimsoll_train::{Draw, Item, Lengths, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::buffer::TokenBuffer;
use super::corpus::Corpus;
use super::tokenized::Sections;

/// Tokens by which a section is known to people.
const SHOWN_TOKENS: usize = 12;

/// Every training section once per epoch, padded or packed.
#[derive(Debug)]
pub struct TextSource {
    corpus: Arc<Corpus>,
    /// Tokens of a row, where sections are packed.
    row_len: Option<u32>,
}

/// The tokens of a section: one more than it predicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextItem(Vec<u16>);

impl TextSource {
    /// Trains on a corpus, whose sections are packed into rows of so many tokens, or padded where that is not said.
    pub fn new(corpus: Arc<Corpus>, row_len: Option<u32>) -> Self {
        Self { corpus, row_len }
    }

    fn sections(&self) -> &Sections {
        &self.corpus.train
    }

    /// Returns the first words of a section.
    fn beginning(&self, id: u64) -> String {
        let known = u32::try_from(id).ok().filter(|id| u64::from(*id) < self.n_samples());
        let tokens = known.map_or(&[][..], |id| self.sections().piece(id));
        self.corpus.tokenizer.decode(&tokens[..tokens.len().min(SHOWN_TOKENS)]).unwrap_or_default()
    }
}

/// Returns the groups of sections, of which each has one.
fn grouped(index: &SampleIndex<1>, group_of: &[u32]) -> Groups {
    let lengths: Vec<u32> = index.iter().map(|[length]| length).collect();
    Groups::try_new(&lengths, group_of).unwrap_or_else(|error| unreachable!("they were indexed: {error}"))
}

impl Item for TextItem {
    fn extent(&self) -> Extent {
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX).into()
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
        let index = self.sections().index().clone();
        match (self.row_len, &self.corpus.together) {
            (Some(row_len), _) => Lengths::Packed { index, row_len },
            (None, None) => Lengths::Known(index.into()),
            (None, Some(group_of)) => Lengths::Grouped(grouped(&index, group_of)),
        }
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
        TokenBuffer::byte_capacity(largest, self.row_len.is_some())
    }

    fn buffer(&self, largest: StepShape) -> TokenBuffer {
        TokenBuffer::with_capacity(largest, self.row_len.is_some())
    }

    fn collate(&self, draw: &Draw, items: &[TextItem], buffer: &mut TokenBuffer) -> Result<(), SourceError> {
        buffer.clear();
        let mut rest = items;
        for part in &draw.parts {
            let mut rows = Vec::with_capacity(part.n_rows());
            let mut ids = &part.ids[..];
            for size in part.row_sizes() {
                let (row, row_ids);
                (row, rest) = rest.split_at(size);
                (row_ids, ids) = ids.split_at(size);
                let n_tokens: u32 = row.iter().map(|it| it.extent().edge()).sum();
                if part.extent.edge() < n_tokens {
                    let what = if row.len() == 1 { "it" } else { "its row" };
                    let reason = format!("{what} has {n_tokens} tokens, its edge is {}", part.extent.edge());
                    return Err(SourceError { sample_id: row_ids[0], reason });
                }
                rows.push(row.iter().map(|item| &item.0[..]));
            }
            buffer.push(part.extent.edge(), rows.into_iter());
        }
        Ok(())
    }
}
