//! Sections as tokens.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::SampleIndex;

use super::error::TextError;
use super::tokenizer::Tokenizer;
use super::vocabulary::BOUNDARY;
use crate::checksum::Checksum;
use crate::outside::{Gate, outside_told};
use crate::watch::{Watch, tell};

/// Characters by which a section is known to people.
const SHOWN_CHARS: usize = 40;

/// Sections one after the other, between boundaries, in 2 bytes a token.
///
/// A piece of `n + 1` tokens predicts its last `n`. The pieces of a section that was cut share the token between them,
/// so that every token but the first boundary is predicted once.
#[derive(Clone, Debug, PartialEq)]
pub struct Sections {
    tokens: Arc<[u16]>,
    starts: Arc<[usize]>,
    index: SampleIndex<1>,
}

impl Sections {
    /// Makes tokens of the texts that pass, in pieces of at most `longest` predicted tokens.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when a text cannot be encoded, [`TextError::Outside`], [`TextError::NoneLeft`],
    /// [`TextError::Sampler`] when there is none, and [`TextError::Interrupted`].
    pub(crate) fn try_new(
        tokenizer: &Tokenizer,
        texts: &[&str],
        longest: u32,
        gate: &mut Gate,
        watch: Watch<'_>,
    ) -> Result<Self, TextError> {
        Self::told(tokenizer, (texts, longest), gate, watch, |_| ())
    }

    /// The same, and says of each piece which of the texts it is of.
    pub(crate) fn told(
        tokenizer: &Tokenizer,
        (texts, longest): (&[&str], u32),
        gate: &mut Gate,
        watch: Watch<'_>,
        mut tell_piece: impl FnMut(usize),
    ) -> Result<Self, TextError> {
        let (mut tokens, mut starts, mut lengths) = (Vec::new(), Vec::new(), Vec::<u32>::new());
        for (at, text) in texts.iter().enumerate() {
            tell(watch, at, texts.len())?;
            let (first, encoded) = (tokens.len(), tokenizer.encode(text)?);
            let n_predicted = u32::try_from(encoded.len() + 1).unwrap_or(u32::MAX);
            let Some(n_predicted) = gate.pass(n_predicted, || beginning(text))? else { continue };
            let whole = [BOUNDARY].into_iter().chain(encoded).chain([BOUNDARY]);
            tokens.extend(whole.take(n_predicted as usize + 1));
            for piece in pieces(tokens.len() - first - 1, longest as usize) {
                tell_piece(at);
                starts.push(first + piece.start);
                lengths.push(u32::try_from(piece.len()).unwrap_or(u32::MAX));
            }
        }
        if lengths.is_empty() && !texts.is_empty() {
            return Err(TextError::NoneLeft { texts: texts.len(), outside: outside_told(&gate.counts) });
        }
        Ok(Self { tokens: tokens.into(), starts: starts.into(), index: SampleIndex::try_new([lengths])? })
    }

    /// Returns how many pieces there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none, which a corpus refuses.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns how many tokens each piece predicts.
    pub fn index(&self) -> &SampleIndex<1> {
        &self.index
    }

    /// Returns the tokens of a piece: one more than it predicts.
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn piece(&self, id: u32) -> &[u16] {
        let length = self.index.get(id.into()).map_or(0, |[length]| length);
        &self.tokens[self.starts[id as usize]..][..=length as usize]
    }

    /// Returns every token that is predicted.
    pub fn targets(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&*self.starts).flat_map(|(id, _)| self.piece(id)[1..].iter().copied())
    }

    /// Returns a number that differs, but for chance, when any token does.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        for token in self.targets() {
            checksum.write(&token.to_le_bytes());
        }
        checksum.finish()
    }
}

/// Names a section by its first words.
fn beginning(text: &str) -> String {
    format!("the section that begins {:?}", text.chars().take(SHOWN_CHARS).collect::<String>())
}

/// Divides `n` positions into the fewest pieces of at most `most`, as equal as can be.
fn pieces(n: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let n_pieces = n.div_ceil(most);
    (0..n_pieces).map(move |i| i * n / n_pieces..(i + 1) * n / n_pieces)
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::{Admit, Oversize};

    use super::*;
    use crate::watch::unwatched;

    #[test]
    fn pieces_are_nearly_equal_and_cover_everything() {
        for (n, most) in [(1, 1), (5, 8), (8, 8), (9, 8), (1000, 512), (1025, 512), (7, 1)] {
            let pieces: Vec<_> = pieces(n, most).collect();
            assert_eq!(pieces.iter().cloned().flatten().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            assert_eq!(pieces.len(), n.div_ceil(most));
            let (least, longest) = (pieces.iter().map(Range::len).min(), pieces.iter().map(Range::len).max());
            assert!(longest <= Some(most) && longest <= least.map(|it| it + 1), "{n} {most}");
        }
    }

    #[test]
    fn every_token_of_a_section_is_predicted_once() {
        let texts = ["one two three four five six seven", "eight"];
        let tokenizer = Tokenizer::train(texts.into_iter(), 257).unwrap();
        let mut gate = Gate::new(Admit::default(), "tokens");
        let sections = Sections::try_new(&tokenizer, &texts, 9, &mut gate, &mut unwatched).unwrap();
        let mut expected = Vec::new();
        for text in texts {
            expected.extend(tokenizer.encode(text).unwrap());
            expected.push(BOUNDARY);
        }
        assert_eq!(sections.targets().collect::<Vec<_>>(), expected);
        assert_eq!((sections.index().longest(), sections.len()), ([9], 5));
        assert_eq!((sections.piece(0)[0], sections.piece(4)[0]), (BOUNDARY, BOUNDARY));
    }

    #[test]
    fn sections_outside_are_refused_skipped_or_truncated_before_they_are_cut() {
        let texts = ["one two three four five six seven", "eight", "ei"];
        let tokenizer = Tokenizer::train(texts.into_iter(), 257).unwrap();
        let read = |outside| {
            let admit = Admit { shortest: 4, longest: 20, too_short: outside, too_long: outside };
            let mut gate = Gate::new(admit, "tokens");
            Sections::try_new(&tokenizer, &texts, 9, &mut gate, &mut unwatched).map(|it| (it, gate.counts))
        };
        let (cut, counts) = read(Oversize::Truncate).unwrap();
        assert_eq!(cut.index().iter().map(|[n]| n).collect::<Vec<_>>(), [6, 7, 7, 6]);
        assert_eq!((counts.truncated, counts.too_short, counts.too_long), (1, 1, 0));
        let whole: Vec<_> = tokenizer.encode(texts[0]).unwrap().into_iter().take(20).collect();
        assert_eq!(cut.targets().take(20).collect::<Vec<_>>(), whole, "no boundary ends what is truncated");
        let (kept, counts) = read(Oversize::Skip).unwrap();
        assert_eq!((kept.len(), counts.too_long, counts.too_short), (1, 1, 1));
        let told = read(Oversize::Refuse).unwrap_err().to_string();
        assert!(
            told.contains("the section that begins \"one two") && told.contains("its length in tokens is 34"),
            "{told}"
        );
    }
}
