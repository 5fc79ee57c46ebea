//! The job.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_sampler::edges;
use plimsoll_train::{Goal, Inference, Job, Loss, Metric, StepError, Unit, Validation, uploaded};
use plimsoll_types::StepShape;

use super::buffer::{Sample, TokenBuffer, Tokens};
use super::corpus::Corpus;
use super::held_out::HeldOut;
use super::model::{Gpt, GptConfig};
use super::source::TextSource;
use super::tokenized::Sections;

/// Edges of validation batches: with eight, a validation pads about a tenth.
const VALIDATION_EDGES: u32 = 8;

/// Language modelling.
#[derive(Debug)]
pub struct Text {
    model: GptConfig,
    corpus: Arc<Corpus>,
    /// Tokens of a row, where sections are packed.
    row_len: Option<u32>,
    source: Arc<TextSource>,
}

impl Text {
    /// Trains a model on a corpus, section by section.
    pub fn new(model: GptConfig, corpus: Arc<Corpus>) -> Self {
        Self::made(model, corpus, None)
    }

    /// The same, with several sections in each row of so many tokens, of which none sees another.
    pub fn packed(model: GptConfig, corpus: Arc<Corpus>, row_len: u32) -> Self {
        Self::made(model, corpus, Some(row_len))
    }

    fn made(model: GptConfig, corpus: Arc<Corpus>, row_len: Option<u32>) -> Self {
        let source = Arc::new(TextSource::new(Arc::clone(&corpus), row_len));
        Self { model, corpus, row_len, source }
    }

    fn size(&self) -> String {
        let (GptConfig { layers, width, heads }, n) = (self.model, self.corpus.tokenizer.vocabulary());
        format!("text with {layers} layers of {heads} heads, {width} features and {n} tokens")
    }
}

/// Returns what the model makes of sections that are held out.
fn measured(
    model: &Gpt,
    held_out: &HeldOut,
    device: &Device,
    inference: &mut Inference<'_>,
) -> Result<Option<Validation>, StepError> {
    let model = model.valid();
    let sections = &held_out.sections;
    let lengths: Vec<_> = sections.index().iter().map(|[length]| length).collect();
    let edges = edges(&lengths, VALIDATION_EDGES, 1).map_err(|it| StepError::Device(it.to_string()))?;
    let mut all: Vec<u32> = (0..).take(lengths.len()).collect();
    let edge_of = |id: u32| edges.edges.partition_point(|edge| *edge < lengths[id as usize]);
    // Those of one edge stay in the order of their documents.
    all.sort_by_key(|id| edge_of(*id));
    let chosen: Vec<u32> = inference.choose(all.len()).into_iter().map(|at| all[at]).collect();
    let mut sum = 0.0;
    for ids in chosen.chunk_by(|a, b| edge_of(*a) == edge_of(*b)) {
        let edge = edges.edges[edge_of(ids[0])];
        let mut sums = vec![0.0; ids.len()];
        inference.run(ids.len(), edge, &mut |range: Range<usize>| {
            sums[range.clone()].copy_from_slice(&sums_of(&model, sections, (&ids[range], edge), device)?);
            Ok(())
        })?;
        sum += sums.iter().sum::<f64>();
    }
    let yardstick = held_out.yardstick(chosen);
    let (bits, nats) = (|it| yardstick.bits_per_byte(it), |it| yardstick.per_token(it));
    let of = |name: &str, value, baseline| Metric { name: name.to_owned(), value, baseline, goal: Goal::Lowest };
    let others = vec![
        of("bits per byte (against a unigram)", bits(sum), bits(yardstick.unigram)),
        of("loss (nats/token)", nats(sum), nats(yardstick.bigram)),
    ];
    let metric = of("bits per byte", bits(sum), bits(yardstick.bigram));
    Ok(Some(Validation { metric, tasks: Vec::new(), others }))
}

/// Returns the summed negative logarithm of the probability of each section held out of some, in nats.
fn sums_of(
    model: &Gpt,
    sections: &Sections,
    (ids, edge): (&[u32], u32),
    device: &Device,
) -> Result<Vec<f64>, StepError> {
    let shape = StepShape::new(u32::try_from(ids.len()).unwrap_or(u32::MAX), edge);
    let mut buffer = TokenBuffer::with_capacity(shape, false);
    let sample = |id: &u32| Sample { tokens: sections.piece(*id), n_repeated: sections.n_repeated(*id) };
    buffer.push(edge, ids.iter().map(|id| [sample(id)]));
    let device = device.clone().inner();
    let tokens = uploaded(buffer.tokens(&(0..ids.len()), &device), &device);
    let n_predicted: usize = ids.iter().map(|id| sections.n_predicted(*id)).sum();
    let data = sample_means(model, tokens).try_into_data().map_err(StepError::from)?;
    let means: Vec<f32> = data.try_into_vec().map_err(|it| StepError::Device(it.to_string()))?;
    Ok(means.into_iter().map(|it| f64::from(it) * n_predicted as f64).collect())
}

/// Returns what each row adds to the mean surprise of a batch: `[batch_size]`.
fn sample_means(model: &Gpt, Tokens { inputs, targets, weights, sight }: Tokens) -> Tensor<1> {
    let shape = weights.dims();
    let surprise = model.surprise(model.forward_seeing(inputs, &sight), targets, weights);
    surprise.reshape(shape).sum_dim(1).flatten(0, 1)
}

impl Job for Text {
    type Source = TextSource;
    type Model = Gpt;
    type Batch = Tokens;

    fn name(&self) -> &'static str {
        "text"
    }

    fn program(&self) -> String {
        let rows = if self.row_len.is_some() { ", in packed rows" } else { "" };
        format!("{}{rows}", self.size())
    }

    /// That rows are packed is a setting of its own.
    fn fingerprint(&self) -> String {
        let Corpus { train, sources, .. } = &*self.corpus;
        let sources = if sources.is_empty() { String::new() } else { format!(" of {} sources", sources.len()) };
        format!("{} on {} sections{sources}, checksum {:016x}", self.size(), train.len(), train.checksum())
    }

    fn source(&self) -> Arc<TextSource> {
        Arc::clone(&self.source)
    }

    fn init(&self, device: &Device) -> Gpt {
        self.model.init(self.corpus.tokenizer.vocabulary(), device)
    }

    fn unit_of_length(&self) -> &'static str {
        "tokens"
    }

    fn unit(&self) -> Unit {
        Unit::Positions
    }

    fn batch(&self, buffer: &TokenBuffer, samples: Range<usize>, device: &Device) -> Tokens {
        buffer.tokens(&samples, device)
    }

    fn blank_batch(&self, shape: StepShape, device: &Device) -> Tokens {
        Tokens::blank(shape, self.row_len.is_some(), device)
    }

    /// The mean negative logarithm of the probability of each token, in nats; padding weighs nothing.
    fn mean_loss(&self, model: &Gpt, batch: Tokens, _task_weights: &[f32]) -> Loss {
        sample_means(model, batch).sum().into()
    }

    fn blank_forward(&self, model: &Gpt, shape: StepShape, device: &Device) -> Tensor<1> {
        sample_means(model, uploaded(Tokens::blank(shape, false, device), device))
    }

    fn validate(
        &self,
        model: &Gpt,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        measured(model, &self.corpus.validation, device, inference)
    }

    fn has_test(&self) -> bool {
        self.corpus.test.is_some()
    }

    fn test(
        &self,
        model: &Gpt,
        device: &Device,
        inference: &mut Inference<'_>,
    ) -> Result<Option<Validation>, StepError> {
        self.corpus.test.as_ref().map_or(Ok(None), |held_out| measured(model, held_out, device, inference))
    }
}
