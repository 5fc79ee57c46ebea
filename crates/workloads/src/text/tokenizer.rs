//! Text to tokens and back.

use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, NormalizerWrapper, PostProcessorWrapper, TokenizerImpl};

use super::error::TextError;
use super::vocabulary::{BOUNDARY, LEAST_VOCABULARY, MOST_VOCABULARY};

/// What the boundary is called in `tokenizer.json`; the same words in a text are text.
const BOUNDARY_NAME: &str = "<|endoftext|>";

/// Bytes after which a run without white space, or of nothing else, is cut: merging takes time with the square of the
/// length of a word, and no word of any language is so long.
const LONGEST_RUN: usize = 256;

type Inner = TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, PostProcessorWrapper, ByteLevel>;

/// A byte-pair tokenizer over bytes: every text becomes tokens, and from these the same text again.
///
/// Kept as `tokenizer.json` in the format of the `tokenizers` library.
///
/// # Sources
///
/// Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016; over bytes:
/// Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, whose pattern of words it uses.
#[derive(Clone, Debug)]
pub struct Tokenizer(Inner);

impl Tokenizer {
    /// Merges the most frequent pairs of the texts until there are `vocabulary` tokens, or no pair comes twice.
    ///
    /// The same texts give the same tokenizer, in any order.
    ///
    /// # Errors
    ///
    /// [`TextError::Vocabulary`] when that is fewer than [`LEAST_VOCABULARY`] or more than [`MOST_VOCABULARY`].
    pub fn train<'a>(texts: impl Iterator<Item = &'a str> + Send, vocabulary: usize) -> Result<Self, TextError> {
        if !(LEAST_VOCABULARY..=MOST_VOCABULARY).contains(&vocabulary) {
            return Err(TextError::Vocabulary(vocabulary));
        }
        let mut inner = Inner::new(BPE::default());
        inner.with_pre_tokenizer(Some(ByteLevel::new(false, false, true)));
        inner.with_decoder(Some(ByteLevel::default()));
        let mut trainer = BpeTrainer::builder()
            .vocab_size(vocabulary)
            .min_frequency(2)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(vec![AddedToken::from(BOUNDARY_NAME, true)])
            .build();
        inner.train(&mut trainer, texts.flat_map(pieces)).map_err(|error| tokenizer_error(&*error))?;
        Ok(Self::new(inner))
    }

    /// Reads what [`Self::to_json`] has written.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when it is no such file, or its vocabulary does not suit.
    pub fn from_json(json: &str) -> Result<Self, TextError> {
        let tokenizer = Self::new(json.parse::<Inner>().map_err(|error| tokenizer_error(&*error))?);
        let (n, boundary) = (tokenizer.vocabulary(), tokenizer.0.token_to_id(BOUNDARY_NAME));
        if boundary != Some(BOUNDARY.into()) || !(LEAST_VOCABULARY..=MOST_VOCABULARY).contains(&n) {
            let reason = format!("it has {n} tokens, and `{BOUNDARY_NAME}` is not the first; train it with this job");
            return Err(TextError::Tokenizer(reason));
        }
        Ok(tokenizer)
    }

    /// Writes the tokenizer as JSON.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when the library cannot.
    pub fn to_json(&self) -> Result<String, TextError> {
        self.0.to_string(true).map_err(|error| tokenizer_error(&*error))
    }

    /// Returns how many tokens there are, the boundary included.
    pub fn vocabulary(&self) -> usize {
        self.0.get_vocab_size(true)
    }

    /// Returns how many bytes of text each token is; the boundary is none.
    pub(crate) fn byte_lengths(&self) -> Vec<u32> {
        let n_bytes = |id: u32| match id {
            id if id == u32::from(BOUNDARY) => 0,
            // A character for each byte.
            id => self.0.id_to_token(id).map_or(0, |it| u32::try_from(it.chars().count()).unwrap_or(u32::MAX)),
        };
        (0..).take(self.vocabulary()).map(n_bytes).collect()
    }

    /// Turns a text into tokens, without boundaries.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when the library cannot.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>, TextError> {
        let token = |id: &u32| u16::try_from(*id).map_err(|error| TextError::Tokenizer(error.to_string()));
        let mut tokens = Vec::new();
        for piece in pieces(text) {
            let encoding = self.0.encode_fast(piece, false).map_err(|error| tokenizer_error(&*error))?;
            tokens.reserve(encoding.len());
            encoding.get_ids().iter().map(token).try_for_each(|it| it.map(|it| tokens.push(it)))?;
        }
        Ok(tokens)
    }

    /// Turns tokens into text; boundaries vanish, and bytes that are no UTF-8 become `�`.
    ///
    /// # Errors
    ///
    /// [`TextError::Tokenizer`] when the library cannot.
    pub fn decode(&self, tokens: &[u16]) -> Result<String, TextError> {
        let ids: Vec<_> = tokens.iter().map(|it| u32::from(*it)).collect();
        self.0.decode(&ids, true).map_err(|error| tokenizer_error(&*error))
    }

    /// The library forgets this one setting in its JSON.
    fn new(mut inner: Inner) -> Self {
        inner.set_encode_special_tokens(true);
        Self(inner)
    }
}

/// Cuts a text where a run is too long, so that together the pieces are the text; most texts are one piece.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut run, mut is_blank) = (Vec::new(), 0, 0, None);
    for (at, character) in text.char_indices() {
        if is_blank != Some(character.is_whitespace()) {
            (run, is_blank) = (at, Some(character.is_whitespace()));
        } else if LONGEST_RUN < at + character.len_utf8() - run {
            pieces.push(&text[start..at]);
            (start, run) = (at, at);
        }
    }
    pieces.push(&text[start..]);
    pieces
}

fn tokenizer_error(error: &dyn std::error::Error) -> TextError {
    TextError::Tokenizer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_its_tokens_are_those_of_the_text() {
        let text = "the tide comes in, the tide goes out: préface, \u{6f6e}\u{6f6e} <|endoftext|>\n".repeat(3);
        let tokenizer = Tokenizer::train(std::iter::once(&*text), 300).unwrap();
        let (tokens, lengths) = (tokenizer.encode(&text).unwrap(), tokenizer.byte_lengths());
        assert!(tokens.len() < text.len() && lengths[usize::from(BOUNDARY)] == 0);
        assert_eq!(tokens.iter().map(|it| lengths[usize::from(*it)] as usize).sum::<usize>(), text.len());
    }

    #[test]
    fn runs_are_cut_at_characters_and_nothing_is_lost() {
        let words = "the tide comes in ".repeat(100);
        assert_eq!(pieces(&words), [&*words]);
        for run in ["x".repeat(1000), "\u{6f6e}".repeat(400), " \t\n".repeat(300)] {
            let text = format!("{words}.{run} {words}");
            let found = pieces(&text);
            assert_eq!(found.concat(), text);
            assert!(
                4 <= found.len() && found[1..found.len() - 1].iter().all(|it| it.len() <= LONGEST_RUN),
                "{found:?}"
            );
        }
        assert_eq!(pieces(""), [""]);
    }
}
