//! What a step is told of its passes.

use std::ops::Range;

use burn::optim::GradientsParams;
use plimsoll_types::{Bytes, Prediction, StepShape};

use crate::issue::{Loss, Passed};
use crate::replicas::Replicas;

/// Predicts the peak of a shape, given the bytes that are resident.
pub type PredictShape<'a> = &'a dyn Fn(StepShape, Bytes) -> Option<Prediction>;

/// Returns the mean loss over a range of a step's samples.
pub type MeanLoss<'a, M> = &'a dyn Fn(&M, Range<usize>) -> Loss;

/// Returns the mean loss over a range of a step's samples, on whatever thread.
///
/// The model that it gets is the thread's own: of tensors with gradients the loss depends on no others, such as those of the
/// model that the step belongs to, since a graph that two threads share may make both wait for ever.
pub type SharedMeanLoss<'a, M> = &'a (dyn Fn(&M, Range<usize>) -> Loss + Sync);

/// Returns the gradients of the mean loss over a range of a step's samples, and whatever else is made of these.
pub type MeanGradients<'a, M, T> = &'a dyn Fn(&M, Range<usize>) -> (GradientsParams, T);

/// Runs the passes over a range of a step's samples.
pub(crate) struct Passes<'a, M, T> {
    pub(crate) one_by_one: &'a dyn Fn(&M, Range<usize>) -> Passed<T>,
    /// What runs several parts at once, where that is asked for.
    pub(crate) side_by_side: Option<(&'a Replicas, SharedMeanLoss<'a, M>)>,
}

impl<M, T> Clone for Passes<'_, M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, T> Copy for Passes<'_, M, T> {}
