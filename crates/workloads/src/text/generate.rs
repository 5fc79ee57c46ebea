//! Writing on: from the beginnings of texts to their ends.

use burn::tensor::{Device, Int, Tensor, TensorData};
use plimsoll_types::StepShape;

use super::cache::Cache;
use super::model::Gpt;
use super::pick::Sampling;
use super::vocabulary::BOUNDARY;

/// How texts are written on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generation {
    /// Positions that the cache has: those of the longest prompt and of what is written.
    pub positions: u32,
    /// The most tokens to write for a prompt; fewer when a boundary comes before.
    pub new_tokens: u32,
    /// How the next token is chosen.
    pub sampling: Sampling,
}

/// The beginning of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Tells the prompts of a run apart, so that each has random numbers of its own in whatever batch it is.
    pub id: u64,
    /// Its tokens; a boundary before the first makes it the beginning of a section.
    pub tokens: Vec<u16>,
}

/// What keeps texts from being written on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A prompt without a token.
    #[error("write on from prompt {0}: it has no token; begin it with a boundary")]
    Empty(u64),
    /// A prompt that leaves too little room.
    #[error(
        "write on from prompt {id}: it has {tokens} tokens, which with {new_tokens} new ones make more than the \
         {positions} positions that there are; shorten it, or allow more positions"
    )]
    TooLong {
        /// The prompt.
        id: u64,
        /// Its tokens.
        tokens: usize,
        /// Tokens to write.
        new_tokens: u32,
        /// Positions.
        positions: u32,
    },
    /// The device failed.
    #[error("write on from {prompts} prompts: {reason}")]
    Device {
        /// Prompts of the batch.
        prompts: usize,
        /// What the device said.
        reason: String,
    },
}

/// Writes on from some prompts at once, and returns the new tokens of each, without the boundary that ends it.
///
/// Prompts are padded on their left, so that all end at one position. What is written does not depend on who shares
/// the batch, but for rounding. The memory depends on the number of prompts and of positions alone, and on the longest
/// prompt.
///
/// # Errors
///
/// [`GenerateError`] names the prompt.
pub fn generate(
    model: &Gpt,
    prompts: &[Prompt],
    generation: &Generation,
    device: &Device,
) -> Result<Vec<Vec<u16>>, GenerateError> {
    prompts.iter().try_for_each(|prompt| check(prompt, generation))?;
    let Some(longest) = prompts.iter().map(|it| it.tokens.len()).max() else { return Ok(Vec::new()) };
    let n_padding: Vec<_> = prompts.iter().map(|it| longest - it.tokens.len()).collect();
    let mut cache = model.cache(&n_padding, generation.positions as usize, device);
    let padded = |(it, n): (&Prompt, &usize)| [vec![BOUNDARY; *n], it.tokens.clone()].concat();
    let mut next: Vec<_> = prompts.iter().zip(&n_padding).flat_map(padded).collect();
    let mut texts: Vec<_> =
        prompts.iter().map(|prompt| Text { id: prompt.id, tokens: Vec::new(), ended: false }).collect();
    for _ in 0..generation.new_tokens {
        let logits = last_logits(model, integers(&next, prompts.len(), device), &mut cache);
        let fault = |reason: String| GenerateError::Device { prompts: prompts.len(), reason };
        let logits = logits.try_into_data().map_err(|it| fault(it.to_string()))?;
        let logits: Vec<f32> = logits.try_into_vec().map_err(|it| fault(it.to_string()))?;
        let rows = logits.chunks_exact(logits.len() / prompts.len());
        next = texts.iter_mut().zip(rows).map(|(text, row)| text.push(row, &generation.sampling)).collect();
        if texts.iter().all(|text| text.ended) {
            break;
        }
    }
    Ok(texts.into_iter().map(|text| text.tokens).collect())
}

/// Runs the parts of a generation that take the most memory, with any values: the longest prompt that leaves room for a
/// token, and the last token.
///
/// `shape.edge()` is the number of positions.
///
/// # Shapes
///
/// - output: `[shape.samples · vocabulary]`, all that is read of it
pub fn blank_generation(model: &Gpt, shape: StepShape, device: &Device) -> Tensor<1> {
    let (n, positions) = (shape.samples as usize, shape.edge() as usize);
    let mut cache = model.cache(&vec![0; n], positions, device);
    let tokens = |edge| Tensor::zeros([n, edge], device);
    if 1 < positions {
        drop(last_logits(model, tokens(positions - 1), &mut cache));
    }
    last_logits(model, tokens(1), &mut cache).flatten(0, 1)
}

/// A text that is being written.
struct Text {
    id: u64,
    tokens: Vec<u16>,
    ended: bool,
}

impl Text {
    /// Chooses the next token, and returns what the model is to read next.
    fn push(&mut self, logits: &[f32], sampling: &Sampling) -> u16 {
        let token = sampling.pick(logits, self.id, self.tokens.len() as u64);
        self.ended |= token == BOUNDARY;
        if !self.ended {
            self.tokens.push(token);
        }
        token
    }
}

fn check(prompt: &Prompt, generation: &Generation) -> Result<(), GenerateError> {
    let (id, tokens) = (prompt.id, prompt.tokens.len());
    let Generation { positions, new_tokens, .. } = *generation;
    match tokens {
        0 => Err(GenerateError::Empty(id)),
        n if (positions as usize) < n + new_tokens as usize => {
            Err(GenerateError::TooLong { id, tokens, new_tokens, positions })
        }
        _ => Ok(()),
    }
}

/// Returns the logits of what follows the last of the new tokens: `[batch_size, vocabulary]`.
fn last_logits(model: &Gpt, tokens: Tensor<2, Int>, cache: &mut Cache) -> Tensor<2> {
    let [n, n_new] = tokens.dims();
    let features = model.extend(tokens, cache);
    let [_, width] = features.dims();
    let last = features.reshape([n, n_new, width]).slice_dim(1, n_new - 1..n_new);
    model.logits(last.reshape([n, width]))
}

fn integers(tokens: &[u16], n: usize, device: &Device) -> Tensor<2, Int> {
    let values: Vec<_> = tokens.iter().map(|it| i32::from(*it)).collect();
    Tensor::from_data(TensorData::new(values, [n, tokens.len() / n]), device)
}
