//! Sections as training samples.

use std::sync::Arc;

use plimsoll_sampler::{Groups, IndexError, SampleIndex};
use plimsoll_train::{Draw, Item, Lengths, NamedSource, Source, SourceError};
use plimsoll_types::{Bytes, Extent, StepShape};

use super::buffer::{Sample, TokenBuffer};
use super::corpus::Corpus;
use super::tokenized::Sections;

/// Tokens by which a section is known to people.
const SHOWN_TOKENS: usize = 12;

/// Every training section once per epoch, padded or packed.
#[derive(Debug)]
pub struct TextSource {
    corpus: Arc<Corpus>,
    /// The lengths of the sections, and where there are several sources whose shares may be asked for, that of each.
    index: SampleIndex<1>,
    /// Tokens of a row, where sections are packed.
    row_len: Option<u32>,
}

/// The tokens of a section, of which it repeats some to see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextItem {
    /// None where another rank reads them.
    tokens: Vec<u16>,
    n_tokens: usize,
    n_repeated: usize,
}

impl TextSource {
    /// Trains on a corpus, whose sections are packed into rows of so many tokens, or padded where that is not said.
    pub fn new(corpus: Arc<Corpus>, row_len: Option<u32>) -> Self {
        let index = corpus.train.index().clone();
        let index = if 1 < corpus.sources.len() { of_sources(index, &corpus.sources) } else { Ok(index) };
        let index = index.unwrap_or_else(|error| unreachable!("all sections are of these sources: {error}"));
        Self { corpus, index, row_len }
    }

    fn sections(&self) -> &Sections {
        &self.corpus.train
    }

    /// Describes a section, without its tokens; none where there is no such section.
    fn described(&self, id: u64) -> Option<(u32, TextItem)> {
        let id = u32::try_from(id).ok().filter(|id| u64::from(*id) < self.n_samples())?;
        let (n_tokens, n_repeated) = (self.sections().piece(id).len(), self.sections().n_repeated(id));
        Some((id, TextItem { tokens: Vec::new(), n_tokens, n_repeated }))
    }

    /// Returns the first words of a section.
    fn beginning(&self, id: u64) -> String {
        let tokens = self.described(id).map_or(&[][..], |(id, _)| self.sections().piece(id));
        self.corpus.tokenizer.decode(&tokens[..tokens.len().min(SHOWN_TOKENS)]).unwrap_or_default()
    }
}

/// Makes the source of each section its task, as the sampler calls what has shares.
fn of_sources(index: SampleIndex<1>, sources: &[NamedSource]) -> Result<SampleIndex<1>, IndexError> {
    let counts = (0..).zip(sources).map(|(number, it)| (number, usize::try_from(it.n_samples).unwrap_or(usize::MAX)));
    index.with_tasks(counts.flat_map(|(number, n)| std::iter::repeat_n(number, n)).collect::<Vec<u16>>())
}

/// Returns the groups of sections, of which each has one.
fn grouped(index: &SampleIndex<1>, group_of: &[u32]) -> Groups {
    let lengths: Vec<u32> = index.iter().map(|[length]| length).collect();
    Groups::try_new(&lengths, group_of).unwrap_or_else(|error| unreachable!("they were indexed: {error}"))
}

impl TextItem {
    fn sample(&self) -> Sample<'_> {
        Sample { tokens: &self.tokens, n_repeated: self.n_repeated }
    }
}

impl Item for TextItem {
    fn extent(&self) -> Extent {
        u32::try_from(self.n_tokens - 1).unwrap_or(u32::MAX).into()
    }

    fn bytes(&self) -> Bytes {
        Bytes(size_of_val(&self.tokens[..]) as u64)
    }

    fn counted_positions(&self) -> u64 {
        (self.n_tokens - 1 - self.n_repeated) as u64
    }
}

impl Source for TextSource {
    type Item = TextItem;
    type Buffer = TokenBuffer;

    fn n_samples(&self) -> u64 {
        self.sections().len() as u64
    }

    fn lengths(&self) -> Lengths {
        let index = self.index.clone();
        match (self.row_len, &self.corpus.together) {
            (Some(row_len), _) => Lengths::Packed { index, row_len },
            (None, None) => Lengths::Known(index.into()),
            (None, Some(group_of)) => Lengths::Grouped(grouped(&index, group_of)),
        }
    }

    fn sources(&self) -> &[NamedSource] {
        &self.corpus.sources
    }

    fn describe(&self, id: u64) -> String {
        format!("the section that begins {:?}", self.beginning(id))
    }

    fn smaller(&self) -> &'static str {
        "a lower `text.longest`, which cuts it"
    }

    fn read(&self, _epoch: u64, id: u64) -> Result<TextItem, SourceError> {
        let reason = || format!("there are {} sections", self.n_samples());
        let (id, item) = self.described(id).ok_or_else(|| SourceError { sample_id: id, reason: reason() })?;
        Ok(TextItem { tokens: self.sections().piece(id).to_vec(), ..item })
    }

    fn stand_in(&self, id: u64) -> Option<TextItem> {
        self.described(id).map(|(_, item)| item)
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
                rows.push(row.iter().map(TextItem::sample));
            }
            buffer.push(part.extent.edge(), rows.into_iter());
        }
        Ok(())
    }
}
