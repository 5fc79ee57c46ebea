//! Sections as tokens.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_sampler::SampleIndex;

use super::config::Cut;
use super::documents::Section;
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
/// A piece of `n + 1` tokens predicts its last `n`. The pieces of a section that was cut share the token between them, and
/// where they overlap so many more, which the later one sees and does not predict: every token but the first boundary is
/// predicted once.
#[derive(Clone, Debug, PartialEq)]
pub struct Sections {
    tokens: Arc<[u16]>,
    starts: Arc<[usize]>,
    index: SampleIndex<1>,
}

impl Sections {
    /// Makes tokens of the texts that pass, in pieces.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when a text cannot be encoded, [`TextError::Outside`], [`TextError::NoneLeft`],
    /// [`TextError::Sampler`] when there is none, and [`TextError::Interrupted`].
    pub(crate) fn try_new(
        tokenizer: &Tokenizer,
        texts: &[Section<'_>],
        cut: Cut,
        gate: &mut Gate,
        watch: Watch<'_>,
    ) -> Result<Self, TextError> {
        Self::told(tokenizer, (texts, cut), gate, watch, |_| ())
    }

    /// The same, and says of each piece which of the texts it is of.
    pub(crate) fn told(
        tokenizer: &Tokenizer,
        (texts, cut): (&[Section<'_>], Cut),
        gate: &mut Gate,
        watch: Watch<'_>,
        mut tell_piece: impl FnMut(usize),
    ) -> Result<Self, TextError> {
        let (mut tokens, mut starts, mut lengths) = (Vec::new(), Vec::new(), Vec::<u32>::new());
        for (at, Section { text, .. }) in texts.iter().enumerate() {
            tell(watch, at, texts.len())?;
            let (first, encoded) = (tokens.len(), tokenizer.encode(text)?);
            let n_predicted = u32::try_from(encoded.len() + 1).unwrap_or(u32::MAX);
            let Some(n_predicted) = gate.pass(n_predicted, || beginning(text))? else { continue };
            let whole = [BOUNDARY].into_iter().chain(encoded).chain([BOUNDARY]);
            tokens.extend(whole.take(n_predicted as usize + 1));
            for piece in pieces(tokens.len() - first - 1, cut) {
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

    /// Returns how many tokens each piece has after its first: those that it predicts, and those that it repeats.
    pub fn index(&self) -> &SampleIndex<1> {
        &self.index
    }

    /// Returns the tokens of a piece: the first ones, which it repeats, and those that it predicts, after the one before them.
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn piece(&self, id: u32) -> &[u16] {
        &self.tokens[self.starts[id as usize]..=self.last(id)]
    }

    /// Returns how many tokens a piece repeats: it has as many before those of [`Self::predicted`].
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn n_repeated(&self, id: u32) -> usize {
        let before = id.checked_sub(1).map_or(0, |before| self.last(before));
        before.saturating_sub(self.starts[id as usize])
    }

    /// Returns the tokens of a piece that it predicts, after the one before them.
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn predicted(&self, id: u32) -> &[u16] {
        &self.piece(id)[self.n_repeated(id)..]
    }

    /// Returns how many tokens a piece predicts.
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn n_predicted(&self, id: u32) -> usize {
        self.predicted(id).len() - 1
    }

    /// Returns every token that is predicted.
    pub fn targets(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&*self.starts).flat_map(|(id, _)| self.predicted(id)[1..].iter().copied())
    }

    /// Returns where the last token of a piece is.
    fn last(&self, id: u32) -> usize {
        self.starts[id as usize] + self.index.get(id.into()).map_or(0, |[length]| length as usize)
    }

    /// Returns a number that differs, but for chance, when any token does, or another is repeated.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        for token in self.targets() {
            checksum.write(&token.to_le_bytes());
        }
        for (id, _) in (0..).zip(&*self.starts).filter(|(id, _)| 0 < self.n_repeated(*id)) {
            checksum.number(u64::from(id));
            checksum.number(self.n_repeated(id) as u64);
        }
        checksum.finish()
    }
}

/// Names a section by its first words.
fn beginning(text: &str) -> String {
    format!("the section that begins {:?}", text.chars().take(SHOWN_CHARS).collect::<String>())
}

/// Divides `n` positions into the fewest pieces of at most so many, as equal as can be, each of which begins with the last ones
/// of the piece before.
fn pieces(n: usize, cut: Cut) -> impl Iterator<Item = Range<usize>> {
    let [most, overlap] = [cut.longest, cut.overlap].map(|it| it as usize);
    let n_pieces = 1 + n.saturating_sub(most).div_ceil(most - overlap);
    let n_in_all = n + (n_pieces - 1) * overlap;
    let end = move |n_before: usize| n_before * n_in_all / n_pieces;
    (0..n_pieces).map(move |i| end(i) - i * overlap..end(i + 1) - i * overlap)
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::{Admit, Oversize};
    use proptest::prelude::*;

    use super::*;
    use crate::watch::unwatched;

    fn section(text: &str) -> Section<'_> {
        Section { source: 0, document: 0, text }
    }

    proptest! {
        #[test]
        fn pieces_are_the_fewest_nearly_equal_and_end_at_each_position_once(
            n in 1_usize..4000, (longest, overlap) in (1_u32..700).prop_flat_map(|it| (Just(it), 0..it))
        ) {
            let pieces: Vec<_> = pieces(n, Cut { longest, overlap }).collect();
            let [most, overlap] = [longest, overlap].map(|it| it as usize);
            // A piece that begins with the end of the one before has others after it.
            let ends = pieces.iter().enumerate().flat_map(|(i, it)| it.start + if i == 0 { 0 } else { overlap }..it.end);
            prop_assert_eq!(ends.collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            prop_assert!(pieces.iter().all(|it| it.len() <= most && it.end <= n));
            prop_assert!(pieces.windows(2).all(|it| it[0].end < it[1].end && it[1].start + overlap == it[0].end));
            let (least, longest) = (pieces.iter().map(Range::len).min(), pieces.iter().map(Range::len).max());
            prop_assert!(longest <= least.map(|it| it + 1), "{:?}", pieces);
            // One piece fewer would be too short.
            let room = |n_pieces: usize| n_pieces * most - n_pieces.saturating_sub(1) * overlap;
            prop_assert!(n <= room(pieces.len()) && room(pieces.len() - 1) < n);
        }
    }

    #[test]
    fn every_token_of_a_section_is_predicted_once() {
        let texts = ["one two three four five six seven", "eight"];
        let tokenizer = Tokenizer::train(texts.into_iter(), 257).unwrap();
        let mut gate = Gate::new(Admit::default(), "tokens");
        let mut cut = |overlap| {
            let cut = Cut { longest: 9, overlap };
            Sections::try_new(&tokenizer, &texts.map(section), cut, &mut gate, &mut unwatched).unwrap()
        };
        let mut expected = Vec::new();
        for text in texts {
            expected.extend(tokenizer.encode(text).unwrap());
            expected.push(BOUNDARY);
        }
        let (apart, overlapping) = (cut(0), cut(4));
        for (sections, n) in [(&apart, 5), (&overlapping, 7)] {
            assert_eq!(sections.targets().collect::<Vec<_>>(), expected);
            assert_eq!((sections.index().longest(), sections.len()), ([9], n));
            let (first, last) = (sections.piece(0), sections.piece(u32::try_from(n).unwrap() - 1));
            assert_eq!((first[0], last[0]), (BOUNDARY, BOUNDARY));
        }
        for id in 0..7 {
            // The first of a section repeats nothing.
            let is_first = id == 0 || id == 6;
            assert_eq!(overlapping.n_repeated(id), if is_first { 0 } else { 4 });
            if !is_first {
                let (before, piece) = (overlapping.piece(id - 1), overlapping.piece(id));
                assert_eq!(piece[..5], before[before.len() - 5..]);
            }
        }
        assert_ne!(apart.checksum(), overlapping.checksum());
    }

    #[test]
    fn sections_outside_are_refused_skipped_or_truncated_before_they_are_cut() {
        let texts = ["one two three four five six seven", "eight", "ei"];
        let tokenizer = Tokenizer::train(texts.into_iter(), 257).unwrap();
        let read = |outside| {
            let admit = Admit { shortest: 4, longest: 20, too_short: outside, too_long: outside };
            let mut gate = Gate::new(admit, "tokens");
            let cut = Cut { longest: 9, overlap: 0 };
            Sections::try_new(&tokenizer, &texts.map(section), cut, &mut gate, &mut unwatched)
                .map(|it| (it, gate.counts))
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
