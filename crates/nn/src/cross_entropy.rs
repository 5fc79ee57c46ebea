//! The loss of a language model: the negative logarithm of the probability of each target, by a weight.
//!
//! The logits are of a few rows at a time, and none of them is kept. The gradients of the sum are made on the way forward, while
//! the logits are at hand, and scaled on the way back: memory grows with the features and not with the vocabulary, and no logit
//! is made twice.
//!
//! # Sources
//!
//! The fused linear cross-entropy of Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.

use std::ops::Range;

use burn::backend::Flex;
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::tensor::{IntDType, Shape};

use crate::numbers::{owned, tensor, width};
use crate::rows;

/// Rows of logits that are made at a time. Fewer are filled up with zeros: what few rows need and what many need then differs by
/// what grows with their number alone, which is what a bound rests on.
const BLOCK: usize = 128;

/// What it is of: features of `[n, width]`, an embedding of `[vocabulary, width]`, and `n` targets and weights.
#[derive(Clone, Debug)]
pub(crate) struct CrossEntropy {
    features: FlexTensor,
    embedding: FlexTensor,
    targets: FlexTensor,
    weights: FlexTensor,
}

/// The gradients of features and embedding.
#[derive(Clone, Debug)]
pub(crate) struct Gradients([FlexTensor; 2]);

impl CrossEntropy {
    pub(crate) fn new(features: FlexTensor, embedding: FlexTensor, targets: FlexTensor, weights: FlexTensor) -> Self {
        let [features, embedding, weights] = [features, embedding, weights].map(|it| it.to_contiguous());
        Self { features, embedding, targets: Flex::int_cast(targets, IntDType::I64).to_contiguous(), weights }
    }

    /// Returns the loss of each target: `[n]`.
    pub(crate) fn forward(&self) -> FlexTensor {
        self.by_block(|_, _, _| ())
    }

    /// Returns the gradients of the sum as well.
    pub(crate) fn forward_and_back(&self) -> (FlexTensor, Gradients) {
        let [shape, of_all] = [&self.features, &self.embedding].map(|it| it.layout().shape());
        let (mut of_features, mut of_embedding) = (Vec::new(), vec![0.0; of_all.num_elements()]);
        of_features.reserve_exact(shape.num_elements());
        let losses = self.by_block(|n, features, of_logits| {
            let of_block = Flex::float_matmul(of_logits.clone(), self.embedding.clone());
            of_features.extend_from_slice(&of_block.storage::<f32>()[..n * shape[1]]);
            let of_block = Flex::float_matmul(of_logits.transpose(0, 1), features);
            rows::wide(rows::Add(of_block.storage(), 1.0, &mut of_embedding[..]));
        });
        (losses, Gradients([tensor(of_features, shape), tensor(of_embedding, of_all)]))
    }

    /// Turns the gradients of the sum into those of what has this gradient.
    pub(crate) fn backward(self, of_sum: Gradients, gradient: &FlexTensor) -> [FlexTensor; 2] {
        let gradient = gradient.to_contiguous();
        let factors: &[f32] = gradient.storage();
        if let Some(factor) = factors.first().filter(|first| factors.iter().all(|it| it.to_bits() == first.to_bits())) {
            return of_sum.0.map(|it| {
                let mut it = owned(it);
                rows::wide(rows::Scale(it.storage_mut(), *factor));
                it
            });
        }
        let weights = Flex::float_mul(self.weights, gradient);
        Self { weights, ..self }.forward_and_back().1.0
    }

    /// Returns the loss of each target; `back` is told the rows of each block, their features and the gradient of their
    /// logits.
    fn by_block(&self, mut back: impl FnMut(usize, FlexTensor, FlexTensor)) -> FlexTensor {
        let (n, vocabulary) = (self.features.layout().shape()[0], self.embedding.layout().shape()[0]);
        let (targets, weights): (&[i64], &[f32]) = (self.targets.storage(), self.weights.storage());
        let mut made = Vec::with_capacity(n);
        for start in (0..n).step_by(BLOCK) {
            let at = start..n.min(start + BLOCK);
            let features = if n < BLOCK { self.filled_up() } else { self.features_of(&at) };
            let mut logits = Flex::float_matmul(features.clone(), self.embedding.clone().transpose(0, 1));
            let (of_rows, beyond) = logits.storage_mut().split_at_mut(at.len() * vocabulary);
            rows::wide(rows::CrossEntropy(of_rows, &targets[at.clone()], &weights[at.clone()], &mut made));
            beyond.fill(0.0);
            back(at.len(), features, logits);
        }
        tensor(made, &Shape::from(vec![n]))
    }

    fn features_of(&self, rows: &Range<usize>) -> FlexTensor {
        let width = width(&self.features);
        let strides = vec![width.cast_signed(), 1];
        let layout = Layout::new(Shape::from(vec![rows.len(), width]), strides, rows.start * width);
        self.features.clone().with_layout(layout)
    }

    /// Returns all features, and rows of zeros behind them.
    fn filled_up(&self) -> FlexTensor {
        let (width, features): (_, &[f32]) = (width(&self.features), self.features.storage());
        let mut filled = vec![0.0; BLOCK * width];
        filled[..features.len()].copy_from_slice(features);
        tensor(filled, &Shape::from(vec![BLOCK, width]))
    }
}
