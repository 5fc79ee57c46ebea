//! Steps of a program's own dataset.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use plimsoll_train::{Batches, BatchesError, StepItems};

use crate::done::Done;
use crate::error::Error;
use crate::sorted::Sorted;
use crate::step::Step;

impl<M: Module> Step<M> {
    /// Runs one optimizer step of an epoch of [`Batches`], whose parts their batcher makes.
    ///
    /// `mean_loss` makes the mean loss over the samples of a batch, of shape `[1]`.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and [`Error::Batches`] when the batcher panics, or makes a batch that has lost samples, or samples have
    /// several axes; nothing has happened then.
    pub fn run_batches<I: Clone + Send + 'static, O: 'static>(
        &mut self,
        batches: &Batches<I, O>,
        samples: &StepItems<I>,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, O) -> Tensor<1>,
    ) -> Result<Done, Error> {
        samples.check_one_axis()?;
        let (sized, making) = (sized(samples), Making::new(batches, self.steps.guarded().device()));
        let loss = |model: &M, part: Vec<Item<'_, I>>| mean_loss(model, making.batch(&part));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let sorted = Sorted::try_new(&sized, |it| it.cost)?.counting(samples.units.as_deref());
            self.run_sorted(&sorted, rate, loss)
        }));
        making.ended(ran, samples)
    }

    /// Does what [`Self::run_batches`] does, with parts that run side by side, as those of [`Self::run_beside`].
    ///
    /// # Errors
    ///
    /// As [`Self::run_batches`].
    pub fn run_batches_beside<I: Clone + Send + Sync + 'static, O: 'static>(
        &mut self,
        batches: &Batches<I, O>,
        samples: &StepItems<I>,
        rate: impl Into<ModuleLearningRate>,
        mean_loss: impl Fn(&M, O) -> Tensor<1> + Sync,
    ) -> Result<Done, Error> {
        samples.check_one_axis()?;
        let (sized, making) = (sized(samples), Making::new(batches, self.steps.guarded().device()));
        let loss = |model: &M, part: Vec<Item<'_, I>>| mean_loss(model, making.batch(&part));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let sorted = Sorted::try_new(&sized, |it| it.cost)?.counting(samples.units.as_deref());
            self.run_sorted_beside(&sorted, rate, loss)
        }));
        making.ended(ran, samples)
    }
}

/// A sample of a step.
struct Item<'a, I> {
    cost: u32,
    /// Its index in the dataset.
    index: usize,
    sample: &'a I,
}

impl<I> Clone for Item<'_, I> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

fn sized<I>(samples: &StepItems<I>) -> Vec<Item<'_, I>> {
    let all = samples.costs.iter().zip(&samples.indices).zip(&samples.items);
    all.map(|((cost, index), sample)| Item { cost: *cost, index: *index, sample }).collect()
}

/// Makes the batches of a step's parts.
struct Making<'a, I, O> {
    batches: &'a Batches<I, O>,
    device: Device,
    /// Why one was not made, and the thread whose last one it was.
    failed: Mutex<Option<(ThreadId, BatchesError)>>,
}

impl<'a, I: Clone + Send + 'static, O: 'static> Making<'a, I, O> {
    fn new(batches: &'a Batches<I, O>, device: &Device) -> Self {
        Self { batches, device: device.clone(), failed: Mutex::new(None) }
    }

    /// Makes a batch of a part.
    ///
    /// # Panics
    ///
    /// Where it cannot: the guard reads a panic for want of memory, and runs the part again in halves.
    fn batch(&self, part: &[Item<'_, I>]) -> O {
        let items = part.iter().map(|it| it.sample.clone()).collect();
        let (batch, thread) = (self.batches.batch(items, &self.device), thread::current().id());
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take_if(|it| it.0 == thread);
        batch.unwrap_or_else(|error| {
            let text = error.to_string();
            let indices = part.iter().map(|it| it.index).collect();
            *failed = Some((thread, BatchesError::Batch { indices, error: Box::new(error) }));
            drop(failed);
            resume_unwind(Box::new(text))
        })
    }

    /// Says what came of a step that ran, or panicked.
    fn ended(self, ran: thread::Result<Result<Done, Error>>, samples: &StepItems<I>) -> Result<Done, Error> {
        let panic = match ran {
            Ok(ran) => return ran.map_err(|error| error.renumbered(|at| samples.indices[at])),
            Err(panic) => panic,
        };
        let failed = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (_, error) = failed.unwrap_or_else(|| resume_unwind(panic));
        Err(error.into())
    }
}
