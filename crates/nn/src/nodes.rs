//! The layers as operations with a gradient.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::{Backward, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Int, Tensor};

use crate::attention::{self, Parts};
use crate::backward::{
    Attention, Convolution, Gelu, LinearCrossEntropy, Neighbours, Normalization, RmsNormalization, Softmax,
};
use crate::cross_entropy::CrossEntropy;
use crate::numbers::{owned, tensor, width};
use crate::{Runs, convolution, halving, neighbours, rows};

#[backend_extension(Flex, Autodiff)]
pub(crate) trait Layers: Backend {
    fn convolved(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        halves: bool,
    ) -> FloatTensor<Self>;
    fn normalized(x: FloatTensor<Self>, gamma: FloatTensor<Self>, beta: FloatTensor<Self>) -> FloatTensor<Self>;
    fn scaled(x: FloatTensor<Self>, gamma: FloatTensor<Self>, epsilon: f32) -> FloatTensor<Self>;
    fn surrounded(x: FloatTensor<Self>, radius: usize) -> FloatTensor<Self>;
    fn below(x: FloatTensor<Self>) -> FloatTensor<Self>;
    fn shares(x: FloatTensor<Self>) -> FloatTensor<Self>;
    fn mixed(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        runs: Runs,
    ) -> FloatTensor<Self>;
    fn cross_entropies(
        features: FloatTensor<Self>,
        embedding: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

pub(crate) fn conv2d(x: Tensor<4>, weight: Tensor<4>, bias: Tensor<1>, halves: bool) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::convolved(x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch(), halves))
}

pub(crate) fn layer_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::normalized(x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch()))
}

pub(crate) fn rms_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, epsilon: f32) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::scaled(x.into_dispatch(), gamma.into_dispatch(), epsilon))
}

pub(crate) fn with_neighbours(x: Tensor<3>, radius: usize) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::surrounded(x.into_dispatch(), radius))
}

pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::below(x.into_dispatch()))
}

pub(crate) fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::shares(x.into_dispatch()))
}

pub(crate) fn attention([query, key, value]: [Tensor<2>; 3], runs: &Runs) -> Tensor<2> {
    let [query, key, value] = [query, key, value].map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::mixed(query, key, value, runs.clone()))
}

pub(crate) fn linear_cross_entropy(
    features: Tensor<2>,
    embedding: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Tensor<1>,
) -> Tensor<1> {
    let [features, embedding] = [features, embedding].map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::cross_entropies(
        features,
        embedding,
        targets.into_dispatch(),
        weights.into_dispatch(),
    ))
}

impl Layers for Flex {
    fn convolved(x: FlexTensor, weight: FlexTensor, bias: FlexTensor, halves: bool) -> FlexTensor {
        let forward = if halves { halving::forward } else { convolution::forward };
        forward(&x, &weight, &bias)
    }

    fn normalized(x: FlexTensor, gamma: FlexTensor, beta: FlexTensor) -> FlexTensor {
        let [x, gamma, beta] = [x, gamma, beta].map(|it| it.to_contiguous());
        let numbers: &[f32] = x.storage();
        let mut made = vec![0.0; numbers.len()];
        rows::wide(rows::Normalize(numbers, (gamma.storage(), beta.storage()), &mut made[..]));
        tensor(made, x.layout().shape())
    }

    fn scaled(x: FlexTensor, gamma: FlexTensor, epsilon: f32) -> FlexTensor {
        let [x, gamma] = [x, gamma].map(|it| it.to_contiguous());
        let numbers: &[f32] = x.storage();
        let mut made = vec![0.0; numbers.len()];
        rows::wide(rows::NormalizeRms(numbers, gamma.storage(), epsilon, &mut made[..]));
        tensor(made, x.layout().shape())
    }

    fn surrounded(x: FlexTensor, radius: usize) -> FlexTensor {
        neighbours::forward(&x, radius)
    }

    fn below(x: FlexTensor) -> FlexTensor {
        let x = x.to_contiguous();
        let numbers: &[f32] = x.storage();
        let mut made = vec![0.0; numbers.len()];
        rows::wide(rows::Gelu(numbers, &mut made[..]));
        tensor(made, x.layout().shape())
    }

    fn shares(x: FlexTensor) -> FlexTensor {
        let (width, mut x) = (width(&x), owned(x));
        rows::wide(rows::Softmax(width, x.storage_mut()));
        x
    }

    fn mixed(query: FlexTensor, key: FlexTensor, value: FlexTensor, runs: Runs) -> FlexTensor {
        attention::forward(&Parts::new([query, key, value], runs.slopes.len()), &runs)
    }

    fn cross_entropies(
        features: FlexTensor,
        embedding: FlexTensor,
        targets: FlexTensor,
        weights: FlexTensor,
    ) -> FlexTensor {
        CrossEntropy::new(features, embedding, targets, weights).forward()
    }
}

impl<C: CheckpointStrategy> Layers for Autodiff<Flex, C> {
    fn convolved(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        halves: bool,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        match Convolution.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = ([prep.checkpoint(&x), prep.checkpoint(&weight)], halves);
                let (x, weight, bias) = (x.into_primitive(), weight.into_primitive(), bias.into_primitive());
                prep.finish(state, Flex::convolved(x, weight, bias, halves))
            }
            OpsKind::UnTracked(prep) => {
                let (x, weight, bias) = (x.into_primitive(), weight.into_primitive(), bias.into_primitive());
                prep.finish(Flex::convolved(x, weight, bias, halves))
            }
        }
    }

    fn normalized(x: FloatTensor<Self>, gamma: FloatTensor<Self>, beta: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [x.node(), gamma.node(), beta.node()];
        match Normalization.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = [prep.checkpoint(&x), prep.checkpoint(&gamma)];
                prep.finish(state, Flex::normalized(x.into_primitive(), gamma.into_primitive(), beta.into_primitive()))
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(Flex::normalized(x.into_primitive(), gamma.into_primitive(), beta.into_primitive()))
            }
        }
    }

    fn scaled(x: FloatTensor<Self>, gamma: FloatTensor<Self>, epsilon: f32) -> FloatTensor<Self> {
        match RmsNormalization.prepare::<C>([x.node(), gamma.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = ([prep.checkpoint(&x), prep.checkpoint(&gamma)], epsilon);
                prep.finish(state, Flex::scaled(x.into_primitive(), gamma.into_primitive(), epsilon))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::scaled(x.into_primitive(), gamma.into_primitive(), epsilon)),
        }
    }

    fn surrounded(x: FloatTensor<Self>, radius: usize) -> FloatTensor<Self> {
        match Neighbours.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(radius, Flex::surrounded(x.into_primitive(), radius)),
            OpsKind::UnTracked(prep) => prep.finish(Flex::surrounded(x.into_primitive(), radius)),
        }
    }

    fn below(x: FloatTensor<Self>) -> FloatTensor<Self> {
        match Gelu.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = prep.checkpoint(&x);
                prep.finish(state, Flex::below(x.into_primitive()))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::below(x.into_primitive())),
        }
    }

    fn shares(x: FloatTensor<Self>) -> FloatTensor<Self> {
        match Softmax.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let made = Flex::shares(x.into_primitive());
                prep.finish(made.clone(), made)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::shares(x.into_primitive())),
        }
    }

    fn mixed(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        runs: Runs,
    ) -> FloatTensor<Self> {
        let nodes = [query.node(), key.node(), value.node()];
        match Attention.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = [prep.checkpoint(&query), prep.checkpoint(&key), prep.checkpoint(&value)];
                let (query, key, value) = (query.into_primitive(), key.into_primitive(), value.into_primitive());
                prep.finish((state, runs.clone()), Flex::mixed(query, key, value, runs))
            }
            OpsKind::UnTracked(prep) => {
                let (query, key, value) = (query.into_primitive(), key.into_primitive(), value.into_primitive());
                prep.finish(Flex::mixed(query, key, value, runs))
            }
        }
    }

    fn cross_entropies(
        features: FloatTensor<Self>,
        embedding: FloatTensor<Self>,
        targets: IntTensor<Self>,
        weights: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let nodes = [features.node(), embedding.node()];
        let (features, embedding) = (features.into_primitive(), embedding.into_primitive());
        let loss = CrossEntropy::new(features, embedding, targets, weights.into_primitive());
        match LinearCrossEntropy.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (made, gradients) = loss.forward_and_back();
                prep.finish((loss, gradients), made)
            }
            OpsKind::UnTracked(prep) => prep.finish(loss.forward()),
        }
    }
}
