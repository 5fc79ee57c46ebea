//! Steps of a program's own dataset.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::tensor::Tensor;
use plimsoll_train::{Batches, StepItems};

use crate::done::Done;
use crate::error::Error;
use crate::step::Step;

impl<M: Module> Step<M> {
    /// Runs one optimizer step of an epoch of [`Batches`], whose parts their batcher makes.
    ///
    /// `mean_loss` makes the mean loss over the samples of a batch, of shape `[1]`.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and [`Error::Batches`] when the batcher panics, or makes a batch that has lost samples; nothing has
    /// happened then.
    pub fn run_batches<I: Clone + Send + 'static, O: 'static>(
        &mut self,
        batches: &Batches<I, O>,
        samples: &StepItems<I>,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, O) -> Tensor<1>,
    ) -> Result<Done, Error> {
        let device = self.guarded.device().clone();
        let sized: Vec<_> = samples.costs.iter().copied().zip(&samples.items).collect();
        let failed = RefCell::new(None);
        let loss = |model: &M, part: Vec<(u32, &I)>| {
            *failed.borrow_mut() = None;
            let items = part.into_iter().map(|(_, item)| item.clone()).collect();
            let batch = batches.batch(items, &device).unwrap_or_else(|error| {
                // The guard reads a panic for want of memory, and runs the part again in halves.
                let text = error.to_string();
                *failed.borrow_mut() = Some(error);
                resume_unwind(Box::new(text))
            });
            mean_loss(model, batch)
        };
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_by(&sized, |(cost, _)| *cost, rate, loss)));
        ran.unwrap_or_else(|panic| {
            let error = failed.take().unwrap_or_else(|| resume_unwind(panic));
            self.guarded.discard(self.state.model());
            Err(error.into())
        })
    }
}
