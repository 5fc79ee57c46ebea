//! Tensors of Flex as numbers in rows.

use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{Bytes, DType, Shape};

/// Makes a tensor of numbers.
pub(crate) fn tensor(numbers: Vec<f32>, shape: &Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(numbers), Layout::contiguous(shape.clone()), DType::F32)
}

/// Returns a tensor whose numbers lie in their order, and may be changed in place where nobody else holds them.
#[expect(clippy::needless_pass_by_value, reason = "while it lives, it holds the numbers too")]
pub(crate) fn owned(x: FlexTensor) -> FlexTensor {
    x.to_contiguous()
}

/// Returns how many numbers a row has.
pub(crate) fn width(x: &FlexTensor) -> usize {
    x.layout().shape().iter().last().copied().unwrap_or(1).max(1)
}
