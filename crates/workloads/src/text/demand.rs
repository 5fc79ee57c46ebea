//! What reading and tokenizing documents takes.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread::available_parallelism;

use plimsoll_types::Bytes;

/// Bytes for a byte of a document until all are tokens: the byte, and at most one token for it, in memory that doubles
/// while it grows and is copied in the end.
const HELD: u64 = 10;

/// Bytes for a byte of a section while it becomes tokens: the library holds the place of each byte twice, and a piece may
/// be as short as one.
const TOKENIZED: u64 = 600;

/// Bytes for a byte of a new word while the tokenizer learns: its symbols, and where each of their pairs is.
const LEARNT: u64 = 160;

/// A word may come with a space before it and without one.
const FORMS: u64 = 2;

/// What the library takes for any text: its pattern, its vocabulary, and the words that it remembers.
const LIBRARY: Bytes = Bytes::mib(4);

/// The documents so far, and what they take at most.
///
/// It does not grow with the text, but with its words.
#[derive(Debug)]
pub(crate) struct Demand {
    n_bytes: u64,
    /// Bytes of the longest sections, as many as are looked at at a time.
    longest: Vec<u64>,
    n_threads: usize,
    /// Hashes of the words.
    words: HashSet<u64>,
    word_bytes: u64,
}

/// A document that may be added.
#[derive(Debug)]
pub(crate) struct Looked {
    n_bytes: u64,
    longest: Vec<u64>,
    fresh: HashSet<u64>,
    fresh_bytes: u64,
}

impl Demand {
    /// Begins without a document.
    pub(crate) fn new() -> Self {
        let n_threads = available_parallelism().map_or(1, usize::from);
        Self { n_bytes: 0, longest: Vec::new(), n_threads, words: HashSet::new(), word_bytes: 0 }
    }

    /// Returns what is needed at least with a file of this size, of which nothing else is known.
    pub(crate) fn with_file(&self, size: u64) -> Bytes {
        bytes_for(self.n_bytes.saturating_add(size), &self.longest, self.word_bytes)
    }

    /// Looks at a document in its sections.
    pub(crate) fn look(&self, n_bytes: usize, sections: &[&str]) -> Looked {
        let (mut fresh, mut fresh_bytes) = (HashSet::new(), 0);
        for word in sections.iter().flat_map(|it| it.split_whitespace()) {
            let mut hasher = DefaultHasher::new();
            word.hash(&mut hasher);
            let hash = hasher.finish();
            if !self.words.contains(&hash) && fresh.insert(hash) {
                fresh_bytes += FORMS * (word.len() as u64 + 1);
            }
        }
        let mut longest: Vec<_> =
            self.longest.iter().copied().chain(sections.iter().map(|it| it.len() as u64)).collect();
        longest.sort_unstable_by_key(|it| Reverse(*it));
        longest.truncate(self.n_threads);
        Looked { n_bytes: n_bytes as u64, longest, fresh, fresh_bytes }
    }

    /// Returns what is needed with a document.
    pub(crate) fn with(&self, it: &Looked) -> Bytes {
        bytes_for(self.n_bytes.saturating_add(it.n_bytes), &it.longest, self.word_bytes.saturating_add(it.fresh_bytes))
    }

    /// Adds a document.
    pub(crate) fn add(&mut self, Looked { n_bytes, longest, fresh, fresh_bytes }: Looked) {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        self.word_bytes = self.word_bytes.saturating_add(fresh_bytes);
        self.longest = longest;
        self.words.extend(fresh);
    }
}

fn bytes_for(n_bytes: u64, longest: &[u64], word_bytes: u64) -> Bytes {
    let at_a_time = longest.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    let parts = [n_bytes.saturating_mul(HELD), at_a_time.saturating_mul(TOKENIZED), word_bytes.saturating_mul(LEARNT)];
    parts.into_iter().map(Bytes).fold(LIBRARY, Bytes::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is needed above that of no text.
    fn needed(documents: &[&[&str]]) -> u64 {
        let mut demand = Demand { n_threads: 2, ..Demand::new() };
        for sections in documents {
            let looked = demand.look(sections.iter().map(|it| it.len()).sum(), sections);
            let with = demand.with(&looked);
            demand.add(looked);
            assert_eq!(with, demand.with_file(0), "what is added is what was looked at");
        }
        demand.with_file(0).0 - LIBRARY.0
    }

    #[test]
    fn what_is_needed_grows_with_bytes_long_sections_and_new_words() {
        assert_eq!(needed(&[]), 0);
        let one = 10 * HELD + 10 * TOKENIZED + FORMS * 11 * LEARNT;
        assert_eq!(needed(&[&["lighthouse"]]), one);
        // The same word again is no new one, and two sections are looked at at a time.
        assert_eq!(needed(&[&["lighthouse", "lighthouse"]]), one + 10 * HELD + 10 * TOKENIZED);
        assert_eq!(needed(&[&["lighthouse"], &["lighthouse"]]), one + 10 * HELD + 10 * TOKENIZED);
        assert_eq!(needed(&[&["lighthouse"; 5]]), one + 40 * HELD + 10 * TOKENIZED);
        assert_eq!(
            needed(&[&["lighthouse", "lighthouse", "sea"]]),
            one + 13 * HELD + 10 * TOKENIZED + FORMS * 4 * LEARNT
        );
    }
}
