//! Which sample of which source comes next.

use std::sync::Arc;

use super::config::TaskMix;
use super::identity::within;
use super::shares::check_shares;
use super::stream_mix::{MixPosition, StreamMix};
use crate::hash::{Use, hash};
use crate::{Permutation, PlanError, StreamError};

/// Draws the samples of several sources in their shares, epoch after epoch, those of each source in an order of its own.
///
/// The samples of the first source have the first ids, and so on; a source that comes again in an epoch has another order.
///
/// ```
/// use plimsoll_sampler::{MixCursor, TaskMix};
///
/// // Three hundred books and nine hundred chats, of which every second is to be a book for as long as there are any.
/// let mix = TaskMix { shares: Some(vec![0.5, 0.5]), ..TaskMix::default() };
/// let mut cursor = MixCursor::try_new(&mix, &[300, 900], 7)?;
/// let n_books = (0..600).filter(|_| cursor.take().id < 300).count();
/// assert_eq!(n_books, 300);
/// // A checkpoint keeps the position.
/// let mut resumed = MixCursor::resume(&mix, &[300, 900], 7, &cursor.position())?;
/// assert_eq!(resumed.take(), cursor.take());
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MixCursor {
    /// Between two samples of one epoch: the next one is there.
    mix: StreamMix,
    /// Samples of each source.
    sizes: Arc<[u64]>,
    seed: u64,
}

/// A sample that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixDraw {
    /// Its epoch, from 0.
    pub epoch: u64,
    /// How often its source has begun again in the epoch.
    pub round: u64,
    /// Its place among the samples of all sources.
    pub id: u64,
    /// Whether the epoch ends with it.
    pub ends_epoch: bool,
}

impl MixCursor {
    /// Stands before the first sample of epoch 0 of sources with so many samples each.
    ///
    /// # Errors
    ///
    /// [`StreamError::NoShares`], [`PlanError::ShareCount`] when there is not one share for each source,
    /// [`PlanError::Share`], [`PlanError::ShareSum`], and [`StreamError::EmptySource`] when one with a share has no samples.
    pub fn try_new(mix: &TaskMix, sizes: &[u64], seed: u64) -> Result<Self, StreamError> {
        let shares = mix.shares.as_ref().ok_or(StreamError::NoShares)?;
        if shares.len() != sizes.len() {
            return Err(PlanError::ShareCount { shares: shares.len(), n_tasks: sizes.len() }.into());
        }
        let counts: Vec<_> = sizes.iter().map(|size| usize::try_from(*size).unwrap_or(usize::MAX)).collect();
        check_shares(shares, &counts, mix)?;
        if let Some(number) = shares.iter().zip(sizes).position(|(share, size)| 0.0 < *share && *size == 0) {
            return Err(StreamError::EmptySource { number });
        }
        Ok(Self { mix: StreamMix::try_new(mix)?, sizes: sizes.into(), seed })
    }

    /// Goes on where a position was taken of the same sources and with the same seed.
    ///
    /// # Errors
    ///
    /// Those of [`MixCursor::try_new`] and [`StreamMix::resume`], and [`crate::PositionError::BeyondEpoch`] when a source had
    /// more samples.
    pub fn resume(mix: &TaskMix, sizes: &[u64], seed: u64, position: &MixPosition) -> Result<Self, StreamError> {
        let mut cursor = Self { mix: StreamMix::resume(mix, position)?, ..Self::try_new(mix, sizes, seed)? };
        for (source, size) in sizes.iter().enumerate() {
            let (_, taken) = cursor.mix.place(source).unwrap_or_default();
            within("samples of a source", taken, *size)?;
        }
        cursor.at_sample();
        Ok(cursor)
    }

    /// Draws the next sample.
    pub fn take(&mut self) -> MixDraw {
        let source = self.next_source().unwrap_or_else(|| unreachable!("the epoch has another sample"));
        let (round, taken) = self.mix.place(source).unwrap_or_default();
        let first: u64 = self.sizes[..source].iter().sum();
        let seed = hash(Use::Sources, self.seed, source as u64, round);
        let id = first + Permutation::new(self.sizes[source], seed, self.mix.epoch()).at(taken - 1);
        let epoch = self.mix.epoch();
        let ends_epoch = self.at_sample();
        MixDraw { epoch, round, id, ends_epoch }
    }

    /// Where the next sample is.
    pub fn position(&self) -> MixPosition {
        self.mix.position()
    }

    /// Stands before a sample: the first of the next epoch, and says so, where the epoch has no other.
    fn at_sample(&mut self) -> bool {
        let mut next = self.clone();
        let ends_epoch = next.next_source().is_none();
        if ends_epoch {
            *self = next;
        }
        ends_epoch
    }

    /// The source that has the next sample, which counts as taken; `None` when the epoch has ended, and the next one begins.
    fn next_source(&mut self) -> Option<usize> {
        loop {
            let source = self.mix.next_source()?;
            let (_, taken) = self.mix.place(source).unwrap_or_default();
            if taken <= self.sizes[source] {
                return Some(source);
            }
            let _ = self.mix.on_end(source).unwrap_or_else(|_| unreachable!("no source with a share is empty"));
        }
    }
}
