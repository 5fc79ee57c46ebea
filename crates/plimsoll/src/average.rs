//! An average of the weights over the steps.

use std::any::Any;
use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

/// An exponential moving average of a model's weights; what is not trained, such as running statistics, is that of the model.
pub(crate) struct Average<M> {
    decay: f64,
    /// Without gradients; empty while it moves.
    model: Option<M>,
}

impl<M: Module> Average<M> {
    /// Begins with the weights of a model.
    pub(crate) fn new(decay: f64, model: &M) -> Self {
        Self { decay, model: Some(model.valid()) }
    }

    /// Goes on with an average that was kept.
    pub(crate) fn of(decay: f64, model: M) -> Self {
        Self { decay, model: Some(model) }
    }

    pub(crate) fn model(&self) -> Option<&M> {
        self.model.as_ref()
    }

    /// Moves towards the model.
    pub(crate) fn follow(&mut self, model: &M) {
        let mut weights = Weights::default();
        model.visit(&mut weights);
        let mut towards = Towards { weights, decay: self.decay };
        self.model = self.model.take().map(|average| average.map(&mut towards));
    }
}

/// The tensors of a model without their graph, and whether each is trained.
#[derive(Default)]
struct Weights(HashMap<ParamId, (bool, Box<dyn Any>)>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.base();
        self.0.insert(param.id, (tensor.is_require_grad(), Box::new(tensor.inner())));
    }
}

struct Towards {
    weights: Weights,
    decay: f64,
}

impl ModuleMapper for Towards {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let found = self.weights.0.remove(&param.id);
        let found = found.and_then(|(is_trained, it)| Some((is_trained, *it.downcast::<Tensor<D>>().ok()?)));
        match found {
            Some((true, weight)) => param.map(|average| average * self.decay + weight * (1.0 - self.decay)),
            Some((false, weight)) => param.map(|_| weight),
            None => param,
        }
    }
}
