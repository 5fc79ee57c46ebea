//! What forward passes change in a model.

use std::any::Any;
use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor};

use crate::gradients::Squares;

/// What forward passes change in a model beside its gradients, such as the running statistics of a batch normalisation, as it
/// was at some moment.
///
/// Burn holds such a state behind a lock that all copies of a model share, so a copy of the model keeps nothing of it, and an
/// update waits until the next forward pass, or until [`Module::valid`], to become the value that is saved.
/// Weights that are not trained are taken for such a state too: they cost a handle each.
#[derive(Default)]
pub(crate) struct RunningStates {
    kept: HashMap<ParamId, Box<dyn Any + Send>>,
}

impl RunningStates {
    /// Lets every update take effect, and keeps what is there then.
    ///
    /// A model of which no weight was ever used has seen no forward pass: its weights are drawn when they are first used, in
    /// the order of that, and stay as they are until then.
    pub(crate) fn of<M: Module>(model: &M) -> Self {
        let mut kinds = Kinds::default();
        model.visit(&mut kinds);
        let mut states = Self::default();
        if kinds.has_untrained {
            if kinds.has_used || !kinds.has_unused {
                Self::settle(model);
            }
            model.visit(&mut Keep(&mut states));
        }
        states
    }

    /// Whether no forward pass changes the model, and one has drawn its weights: as they are used.
    pub(crate) fn are_none<M: Module>(model: &M) -> bool {
        let mut kinds = Kinds::default();
        model.visit(&mut kinds);
        !kinds.has_untrained && (kinds.has_used || !kinds.has_unused)
    }

    /// Lets every update take effect.
    pub(crate) fn settle<M: Module>(model: &M) {
        drop(model.valid());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Puts back what was kept.
    pub(crate) fn put_back<M: Module>(&mut self, model: &M) {
        if self.is_empty() {
            return;
        }
        // An update that waits would take the place of what is put back.
        Self::settle(model);
        drop(model.clone().map(self));
    }

    /// Returns the sum of the squares of what has changed since, of shape `[1]`; `None` where there is nothing to change.
    pub(crate) fn difference<M: Module>(&self, model: &M, device: &Device) -> Option<Tensor<1>> {
        if self.is_empty() {
            return None;
        }
        let mut visitor = Changes { before: self, squares: Squares::default() };
        model.visit(&mut visitor);
        Some(visitor.squares.or_zero(device))
    }

    /// Returns the sum of the squares of all that was kept, without a graph, of shape `[1]`; `None` where there is nothing.
    pub(crate) fn squares<M: Module>(model: &M, device: &Device) -> Option<Tensor<1>> {
        let states = Self::of(model);
        if states.is_empty() {
            return None;
        }
        let mut visitor = SquaredStates { states: &states, squares: Squares::default() };
        model.visit(&mut visitor);
        Some(visitor.squares.or_zero(device))
    }
}

/// What kinds of weights a model has.
#[derive(Default)]
struct Kinds {
    /// Some that were never used.
    has_unused: bool,
    /// Trained ones that were.
    has_used: bool,
    /// Some that are not trained.
    has_untrained: bool,
}

/// Does something to a model of which a failure leaves no trace in what forward passes change, though copies share it.
///
/// # Errors
///
/// Those of the work.
pub fn or_put_back<M: Module, T, E>(model: &M, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let mut before = RunningStates::of(model);
    work().inspect_err(|_| before.put_back(model))
}

fn is_untrained<const D: usize>(param: &Param<Tensor<D>>) -> bool {
    param.is_initialized() && !Tensor::is_require_grad(param)
}

impl ModuleVisitor for Kinds {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let is_untrained = is_untrained(param);
        self.has_untrained |= is_untrained;
        self.has_unused |= !param.is_initialized();
        self.has_used |= param.is_initialized() && !is_untrained;
    }
}

/// Keeps what is not trained.
struct Keep<'a>(&'a mut RunningStates);

impl ModuleVisitor for Keep<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if is_untrained(param) {
            self.0.kept.insert(param.id, Box::new(param.base()));
        }
    }
}

impl ModuleMapper for RunningStates {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let kept = self.kept.get(&param.id).and_then(|it| it.downcast_ref::<Tensor<D>>());
        match kept {
            Some(kept) => Param::initialized(param.id, kept.clone()),
            None => param,
        }
    }
}

struct Changes<'a> {
    before: &'a RunningStates,
    squares: Squares,
}

impl ModuleVisitor for Changes<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(before) = self.before.kept.get(&param.id).and_then(|it| it.downcast_ref::<Tensor<D>>()) {
            self.squares.add(param.base().inner() - before.clone().inner());
        }
    }
}

struct SquaredStates<'a> {
    states: &'a RunningStates,
    squares: Squares,
}

impl ModuleVisitor for SquaredStates<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(kept) = self.states.kept.get(&param.id).and_then(|it| it.downcast_ref::<Tensor<D>>()) {
            self.squares.add(kept.clone().inner());
        }
    }
}
