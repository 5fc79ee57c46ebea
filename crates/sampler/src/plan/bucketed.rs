//! Batches out of any iterator.

use super::config::PlanConfig;
use super::stream::StreamPlanner;
use super::streamed::{Pushed, StreamBatch, StreamLimits, StreamSample};
use crate::{CapacityRule, StreamError};

/// Batches of an iterator's samples, which a bounded buffer looks ahead at.
#[derive(Clone, Debug)]
pub struct Bucketed<I, R, const AXES: usize> {
    samples: I,
    planner: StreamPlanner<R, AXES>,
    /// The sample that found no room.
    next: Option<StreamSample<AXES>>,
    has_ended: bool,
}

/// Puts the samples of an iterator into batches as a [`StreamPlanner`] does; it never holds more than the limits.
///
/// The iterator returns the error of a sample that cannot be batched, and goes on with the next sample.
///
/// # Errors
///
/// Those of [`StreamPlanner::try_new`].
///
/// ```
/// use plimsoll_sampler::{Bytes, PaddedBudget, PlanConfig, StreamLimits, StreamSample, bucketed};
///
/// let lengths = (0..1_000u32).map(|id| 1 + id * 7919 % 89);
/// let utterances =
///     (0..).zip(lengths).map(|(id, length)| StreamSample { id, lengths: [length], task: 0, bytes: Bytes(320) });
/// let limits = StreamLimits { samples: 200, bytes: Bytes::mib(1) };
/// let mut n_samples = 0;
/// for batch in bucketed(utterances, PaddedBudget([500]), PlanConfig::default(), limits)? {
///     let batch = batch?;
///     assert!(batch.ids.len() as u32 * batch.cell[0] <= 500);
///     n_samples += batch.ids.len();
/// }
/// assert_eq!(n_samples, 1_000);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
pub fn bucketed<I, R, const AXES: usize>(
    samples: I,
    rule: R,
    config: PlanConfig<AXES>,
    limits: StreamLimits,
) -> Result<Bucketed<I::IntoIter, R, AXES>, StreamError>
where
    I: IntoIterator<Item = StreamSample<AXES>>,
    R: CapacityRule<AXES>,
{
    let planner = StreamPlanner::try_new(rule, config, limits)?;
    Ok(Bucketed { samples: samples.into_iter(), planner, next: None, has_ended: false })
}

impl<I, R, const AXES: usize> Bucketed<I, R, AXES> {
    /// The planner, which knows what was skipped and what is held.
    pub const fn planner(&self) -> &StreamPlanner<R, AXES> {
        &self.planner
    }
}

impl<I: Iterator<Item = StreamSample<AXES>>, R: CapacityRule<AXES>, const AXES: usize> Iterator
    for Bucketed<I, R, AXES>
{
    type Item = Result<StreamBatch<AXES>, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            let Some(sample) = self.next.take().or_else(|| self.samples.next()) else {
                self.has_ended = true;
                self.planner.finish();
                break;
            };
            match self.planner.push(sample) {
                Ok(Pushed::Full) => {
                    self.next = Some(sample);
                    break;
                }
                Ok(Pushed::Held | Pushed::Skipped) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        self.planner.next_batch().map(Ok)
    }
}
