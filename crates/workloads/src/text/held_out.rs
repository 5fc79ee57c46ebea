//! Sections that are held out, with what a model must beat on them.

use super::baseline::{Baselines, Nats};
use super::tokenized::Sections;

/// Sections to validate or to test on.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The sections.
    pub sections: Sections,
    /// Of each section: bytes of text that its predicted tokens are, and what they take under the baselines.
    known: Vec<(u32, Nats)>,
}

/// What some sections are, and the least that a model has to make of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Yardstick {
    /// Bytes of text.
    pub n_bytes: u64,
    /// Predicted tokens, boundaries included.
    pub n_tokens: u64,
    /// Nats under the frequencies of the training tokens.
    pub unigram: f64,
    /// Nats under an interpolated bigram of the training tokens.
    pub bigram: f64,
}

impl HeldOut {
    /// Measures sections that the baselines were asked for; `byte_lengths` has that of each token.
    pub(crate) fn new(sections: Sections, baselines: &Baselines, byte_lengths: &[u32]) -> Self {
        let known = |id| {
            let predicted = sections.predicted(id);
            let n_bytes = predicted[1..].iter().map(|token| byte_lengths[usize::from(*token)]).sum();
            (n_bytes, baselines.nats(predicted))
        };
        let known = (0..).take(sections.len()).map(known).collect();
        Self { sections, known }
    }

    /// Returns what some of the sections are measured against.
    ///
    /// # Panics
    ///
    /// When there is no such section.
    pub fn yardstick(&self, ids: impl IntoIterator<Item = u32>) -> Yardstick {
        let mut sum = Yardstick::default();
        for id in ids {
            let (n_bytes, Nats { unigram, bigram }) = self.known[id as usize];
            sum.n_bytes += u64::from(n_bytes);
            sum.n_tokens += self.sections.n_predicted(id) as u64;
            sum.unigram += unigram;
            sum.bigram += bigram;
        }
        sum
    }
}

impl Yardstick {
    /// Returns bits a byte for so many nats of these sections.
    pub fn bits_per_byte(&self, nats: f64) -> f64 {
        nats / std::f64::consts::LN_2 / self.n_bytes as f64
    }

    /// Returns nats a token for so many nats of these sections.
    pub fn per_token(&self, nats: f64) -> f64 {
        nats / self.n_tokens as f64
    }
}
