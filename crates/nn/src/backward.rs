//! What goes back through the nodes.

use burn::backend::Flex;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::flex::FlexTensor;

use crate::attention::Parts;
use crate::cross_entropy::CrossEntropy;
use crate::numbers::{owned, tensor, width};
use crate::{Runs, attention, convolution, cross_entropy, halving, neighbours, rows};

#[derive(Debug)]
pub(crate) struct Convolution;

#[derive(Debug)]
pub(crate) struct Normalization;

#[derive(Debug)]
pub(crate) struct RmsNormalization;

#[derive(Debug)]
pub(crate) struct Neighbours;

#[derive(Debug)]
pub(crate) struct Gelu;

#[derive(Debug)]
pub(crate) struct Softmax;

#[derive(Debug)]
pub(crate) struct Attention;

#[derive(Debug)]
pub(crate) struct LinearCrossEntropy;

/// Returns the parents that want a gradient.
fn wanting<S, const N: usize>(ops: &Ops<S, N>) -> [Option<NodeId>; N] {
    ops.parents.each_ref().map(|it| it.as_ref().map(|it| it.id))
}

/// Gives each parent that wants one the gradient that was made for it.
fn give<const N: usize>(to: [Option<NodeId>; N], made: [impl Into<Option<FlexTensor>>; N], grads: &mut Gradients) {
    for (node, gradient) in to.into_iter().zip(made) {
        if let (Some(node), Some(gradient)) = (node, gradient.into()) {
            grads.register::<Flex>(node, gradient);
        }
    }
}

impl Backward<Flex, 3> for Convolution {
    /// Input and weight, and whether it halves height and width.
    type State = ([NodeId; 2], bool);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (to, (nodes, halves)) = (wanting(&ops), ops.state);
        let gradient = grads.consume::<Flex>(&ops.node);
        let [x, weight] = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it));
        let backward = if halves { halving::backward } else { convolution::backward };
        let made = backward(&x, &weight, &gradient, to[0].is_some());
        give(to, [made.x, Some(made.weight), Some(made.bias)], grads);
    }
}

impl Backward<Flex, 3> for Normalization {
    /// Input and factors.
    type State = [NodeId; 2];

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let to = wanting(&ops);
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let [x, gamma] = ops.state.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it).to_contiguous());
        let (numbers, width): (&[f32], _) = (x.storage(), width(&x));
        let [mut by_gamma, mut by_beta] = [(); 2].map(|()| vec![0.0; width]);
        let of_both = (&mut by_gamma[..], &mut by_beta[..]);
        rows::wide(rows::NormalizeBackward(numbers, gamma.storage(), gradient.storage_mut(), of_both));
        let [by_gamma, by_beta] = [by_gamma, by_beta].map(|it| tensor(it, gamma.layout().shape()));
        give(to, [gradient, by_gamma, by_beta], grads);
    }
}

impl Backward<Flex, 2> for RmsNormalization {
    /// Input and factors, and what is added to the mean of the squares.
    type State = ([NodeId; 2], f32);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (to, (nodes, epsilon)) = (wanting(&ops), ops.state);
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let [x, gamma] = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it).to_contiguous());
        let mut by_gamma = vec![0.0; width(&x)];
        let (numbers, factors) = (x.storage(), gamma.storage());
        rows::wide(rows::NormalizeRmsBackward(numbers, factors, epsilon, gradient.storage_mut(), &mut by_gamma[..]));
        give(to, [gradient, tensor(by_gamma, gamma.layout().shape())], grads);
    }
}

impl Backward<Flex, 1> for Neighbours {
    /// How many positions before and after each.
    type State = usize;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        give(wanting(&ops), [neighbours::backward(&gradient, ops.state)], grads);
    }
}

impl Backward<Flex, 1> for Gelu {
    /// The input.
    type State = NodeId;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let x = checkpointer.retrieve_node_output::<FlexTensor>(ops.state).to_contiguous();
        rows::wide(rows::GeluBackward(x.storage(), gradient.storage_mut()));
        give(wanting(&ops), [gradient], grads);
    }
}

impl Backward<Flex, 1> for Softmax {
    /// What it has made.
    type State = FlexTensor;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let mut gradient = owned(grads.consume::<Flex>(&ops.node));
        let (made, width): (&[f32], _) = (ops.state.storage(), width(&ops.state));
        rows::wide(rows::SoftmaxBackward(width, made, gradient.storage_mut()));
        give(wanting(&ops), [gradient], grads);
    }
}

impl Backward<Flex, 3> for Attention {
    /// Queries, keys and values.
    type State = ([NodeId; 3], Runs);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let (to, gradient, (nodes, runs)) = (wanting(&ops), grads.consume::<Flex>(&ops.node), ops.state);
        let parts = nodes.map(|it| checkpointer.retrieve_node_output::<FlexTensor>(it));
        let made = attention::backward(&Parts::new(parts, runs.slopes.len()), &runs, &gradient);
        give(to, [made.query, made.key, made.value], grads);
    }
}

impl Backward<Flex, 2> for LinearCrossEntropy {
    /// The loss, and the gradients of its sum.
    type State = (CrossEntropy, cross_entropy::Gradients);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (to, gradient, (loss, of_sum)) = (wanting(&ops), grads.consume::<Flex>(&ops.node), ops.state);
        give(to, loss.backward(of_sum, &gradient), grads);
    }
}
