//! The passes of one step.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::tensor::Device;
use burn::train::{LearnerModel, TrainOutput, TrainStep};
use plimsoll_step::{GuardedStep, PredictShape, StepError, StepOutcome, StepRequest, Stopped};
use plimsoll_types::{Bytes, StepShape};

use crate::batches::{NoBatch, StepBatches};
use crate::error::{At, LearnerError};

/// What the passes of a step have brought.
pub(crate) struct Brought<M: LearnerModel> {
    /// What the model returned for each part.
    pub(crate) outputs: Vec<<M as TrainStep>::Output>,
    /// The highest bound of the parts, where one was known.
    pub(crate) predicted: Option<Bytes>,
}

/// Runs the model's own steps over all samples, and checks the gradient that comes of it.
pub(crate) fn attempt<M: LearnerModel>(
    (guarded, known): (&mut GuardedStep, PredictShape<'_>),
    model: &M,
    (batches, device): (&StepBatches<'_, <M as TrainStep>::Input>, &Device),
    request: &StepRequest,
    at: At,
) -> Result<(StepOutcome, Brought<M>), Stopped<LearnerError>> {
    let (predicted, no_batch) = (Cell::new(None), Cell::new(None));
    let predict = |shape: StepShape, resident| {
        let prediction = known(shape, resident);
        let is_to_run = batches.are_whole() || prediction.is_some_and(|it| it.upper <= request.budget.budget);
        predicted.set(predicted.get().max(prediction.filter(|_| is_to_run).map(|it| it.upper)));
        // A batch that cannot be divided runs whatever it is predicted to need.
        prediction.filter(|_| !batches.are_whole())
    };
    let passes = |model: &M, part: Range<usize>| {
        no_batch.set(None);
        let batch = batches.batch(part, device).unwrap_or_else(|error| {
            // What a batcher panics with for want of memory is told by its text.
            let text = if let NoBatch::Failed(error) = &error { error.to_string() } else { String::new() };
            no_batch.set(Some(error));
            resume_unwind(Box::new(text))
        });
        let TrainOutput { grads, item } = TrainStep::step(model, batch);
        (grads, item)
    };
    let whole_batch = || {
        let (n_samples, capacity) = (request.units.len(), request.budget.capacity);
        LearnerError::WholeBatch { at, n_samples, capacity }
    };
    let attempted = AssertUnwindSafe(|| guarded.attempt_gradients(model, request, &predict, &passes));
    let panic = match catch_unwind(attempted) {
        Ok(Ok((outcome, outputs))) => return Ok((outcome, Brought { outputs, predicted: predicted.get() })),
        Ok(Err(StepError::NotDivided { .. })) if batches.are_whole() => return Err(Stopped::Passes(whole_batch())),
        Ok(Err(error)) => return Err(error.into()),
        Err(panic) => panic,
    };
    Err(Stopped::Passes(match no_batch.take() {
        Some(NoBatch::Failed(source)) => LearnerError::Batch { at, source },
        Some(NoBatch::UsedUp) => whole_batch(),
        None => {
            let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
            LearnerError::Panicked { at, message: message.unwrap_or("it did not say why").to_owned() }
        }
    }))
}
