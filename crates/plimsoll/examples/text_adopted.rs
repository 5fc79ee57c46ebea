//! Classification of texts with a loop of its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::attention::generate_padding_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Bool, Device, Int, Tensor};

#[global_allocator]
static HEAP: plimsoll::TrackingAllocator = plimsoll::TrackingAllocator::new();

const N_CLASSES: u8 = 4;
const N_WORDS: usize = 64;

/// A text of numbered words, from 1, and what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) words: Vec<usize>,
    class: u8,
}

/// Texts of 4 to 102 words; one word in four says what its text is about.
pub(crate) fn texts(n: usize) -> InMemDataset<Text> {
    let mut state = 1_u64;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let text = |class| {
        let n_words = 4 + draw(8) * draw(8) * draw(2) * 2;
        let words = (0..n_words).map(|_| if draw(4) == 0 { 1 + usize::from(class) } else { 5 + draw(N_WORDS - 5) });
        Text { words: words.collect(), class }
    };
    InMemDataset::new((0..N_CLASSES).cycle().take(n).map(text).collect())
}

#[derive(Clone, Debug)]
pub(crate) struct TextBatch {
    pub(crate) words: Tensor<2, Int>,
    is_padding: Tensor<2, Bool>,
    classes: Tensor<1, Int>,
}

#[derive(Clone, Copy)]
pub(crate) struct TextBatcher;

impl Batcher<Text, TextBatch> for TextBatcher {
    fn batch(&self, items: Vec<Text>, device: &Device) -> TextBatch {
        let classes: Vec<_> = items.iter().map(|it| i32::from(it.class)).collect();
        let padded = generate_padding_mask(0, items.into_iter().map(|it| it.words).collect(), None, device);
        TextBatch { words: padded.tensor, is_padding: padded.mask, classes: Tensor::from_ints(&*classes, device) }
    }
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    embedding: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

impl Net {
    pub(crate) fn init(device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(N_WORDS, 32).init(device),
            encoder: TransformerEncoderConfig::new(32, 64, 2, 2).with_dropout(0.0).init(device),
            output: LinearConfig::new(32, N_CLASSES.into()).init(device),
        }
    }

    pub(crate) fn loss(&self, batch: TextBatch) -> Tensor<1> {
        let input =
            TransformerEncoderInput::new(self.embedding.forward(batch.words)).mask_pad(batch.is_padding.clone());
        let is_word = batch.is_padding.bool_not().float().unsqueeze_dim::<3>(2);
        let sum = (self.encoder.forward(input) * is_word.clone()).sum_dim(1) / is_word.sum_dim(1);
        let scores = self.output.forward(sum.squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, batch.classes)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(0);
    let batches = plimsoll::batches(texts(512), TextBatcher).cost(|it| it.words.len()).effective_batch(32).build()?;
    let mut step = plimsoll::step(&device, Net::init(&device), AdamConfig::new().init()).budget(0.9).build()?;
    for epoch in 0..4 {
        let mut sum = 0.0;
        for samples in batches.epoch(epoch) {
            sum += step.run_batches(&batches, &samples?, 1e-3, Net::loss)?.loss;
        }
        println!("epoch {epoch}: loss {:.4}", sum / 16.0);
    }
    Ok(())
}
