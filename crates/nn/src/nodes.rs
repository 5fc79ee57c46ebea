//! The layers as operations with a gradient.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Int, Tensor};

use crate::attention::{self, Parts};
use crate::cross_entropy::{self, CrossEntropy};
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

#[derive(Debug)]
struct Convolution;

#[derive(Debug)]
struct Normalization;

#[derive(Debug)]
struct RmsNormalization;

#[derive(Debug)]
struct Neighbours;

#[derive(Debug)]
struct Gelu;

#[derive(Debug)]
struct Softmax;

#[derive(Debug)]
struct Attention;

#[derive(Debug)]
struct LinearCrossEntropy;

impl Backward<Flex, 3> for Convolution {
    /// Input and weight, and whether it halves height and width.
    type State = ([NodeId; 2], bool);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let ([of_x, of_weight, of_bias], (nodes, halves)) = (ops.parents, ops.state);
        let gradient = grads.consume::<Flex>(&ops.node);
        let [x, weight] = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it));
        let backward = if halves { halving::backward } else { convolution::backward };
        let made = backward(&x, &weight, &gradient, of_x.is_some());
        for (node, gradient) in [(of_x, made.x), (of_weight, Some(made.weight)), (of_bias, Some(made.bias))] {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

impl Backward<Flex, 3> for Normalization {
    /// Input and factors.
    type State = [NodeId; 2];

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [of_x, of_gamma, of_beta] = ops.parents;
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let [x, gamma] = ops.state.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it).to_contiguous());
        let (numbers, width): (&[f32], _) = (x.storage(), width(&x));
        let [mut by_gamma, mut by_beta] = [(); 2].map(|()| vec![0.0; width]);
        let of_both = (&mut by_gamma[..], &mut by_beta[..]);
        rows::wide(rows::NormalizeBackward(numbers, gamma.storage(), gradient.storage_mut(), of_both));
        let [by_gamma, by_beta] = [by_gamma, by_beta].map(|it| tensor(it, gamma.layout().shape()));
        for (node, gradient) in [(of_x, gradient), (of_gamma, by_gamma), (of_beta, by_beta)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

impl Backward<Flex, 2> for RmsNormalization {
    /// Input and factors, and what is added to the mean of the squares.
    type State = ([NodeId; 2], f32);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let ([of_x, of_gamma], (nodes, epsilon)) = (ops.parents, ops.state);
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let [x, gamma] = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it).to_contiguous());
        let mut by_gamma = vec![0.0; width(&x)];
        let (numbers, factors) = (x.storage(), gamma.storage());
        rows::wide(rows::NormalizeRmsBackward(numbers, factors, epsilon, gradient.storage_mut(), &mut by_gamma[..]));
        for (node, gradient) in [(of_x, gradient), (of_gamma, tensor(by_gamma, gamma.layout().shape()))] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

impl Backward<Flex, 1> for Neighbours {
    /// How many positions before and after each.
    type State = usize;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let [of_x] = ops.parents;
        let gradient = grads.consume::<Flex>(&ops.node);
        if let Some(node) = of_x {
            grads.register::<Flex>(node.id, neighbours::backward(&gradient, ops.state));
        }
    }
}

impl Backward<Flex, 1> for Gelu {
    /// The input.
    type State = NodeId;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [of_x] = ops.parents;
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let x = checkpointer.retrieve_node_output::<FlexTensor>(ops.state).to_contiguous();
        rows::wide(rows::GeluBackward(x.storage(), gradient.storage_mut()));
        if let Some(node) = of_x {
            grads.register::<Flex>(node.id, gradient);
        }
    }
}

impl Backward<Flex, 1> for Softmax {
    /// What it has made.
    type State = FlexTensor;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let [of_x] = ops.parents;
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let (made, width): (&[f32], _) = (ops.state.storage(), width(&ops.state));
        rows::wide(rows::SoftmaxBackward(width, made, gradient.storage_mut()));
        if let Some(node) = of_x {
            grads.register::<Flex>(node.id, gradient);
        }
    }
}

impl Backward<Flex, 3> for Attention {
    /// Queries, keys and values.
    type State = ([NodeId; 3], Runs);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (gradient, (nodes, runs)) = (grads.consume::<Flex>(&ops.node), ops.state);
        let parts = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it));
        let made = attention::backward(&Parts::new(parts, runs.slopes.len()), &runs, &gradient);
        for (node, gradient) in ops.parents.into_iter().zip([made.query, made.key, made.value]) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, gradient);
            }
        }
    }
}

impl Backward<Flex, 2> for LinearCrossEntropy {
    /// The loss, and the gradients of its sum.
    type State = (CrossEntropy, cross_entropy::Gradients);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (gradient, (loss, of_sum)) = (grads.consume::<Flex>(&ops.node), ops.state);
        let made = loss.backward(of_sum, &gradient);
        for (node, gradient) in ops.parents.into_iter().zip(made) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, gradient);
            }
        }
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
