//! Batches from a stream whose length nobody knows.

use std::collections::VecDeque;

use plimsoll_types::Bytes;

use super::config::{Oversize, PlanConfig};
use super::fit::Fit;
use super::resuming::Resuming;
use super::stream_position::{StreamIdentity, StreamPosition};
use super::streamed::{Planned, Pushed, StreamBatch, StreamLimits, StreamSample, StreamStats};
use super::window::Window;
use crate::{CapacityRule, IndexError, StreamError};

/// Plans a stream through a bounded look-ahead buffer.
///
/// Half of the buffer fills up while the batches of the other half are taken.
/// A full half is planned as a window of an epoch is, and its partial batch goes into the next half.
/// The batches depend on which samples come after which half alone, not on when they are pushed or taken.
/// A stream that has ended may begin again: the first sample after the end begins the next epoch.
/// The window, and the share of mates that may be kept, have no meaning here.
///
/// ```
/// use plimsoll_sampler::{Bytes, PaddedBudget, PlanConfig, StreamLimits, StreamPlanner, StreamSample};
///
/// let limits = StreamLimits { samples: 200, bytes: Bytes::mib(1) };
/// let fresh = || StreamPlanner::try_new(PaddedBudget([500]), PlanConfig::default(), limits);
/// let sample = |id: u64| StreamSample { id, lengths: [1 + (id * 7919 % 89) as u32], task: 0, bytes: Bytes(320) };
/// let mut planner = fresh()?;
/// for id in 0..150 {
///     planner.push(sample(id))?;
/// }
/// // A checkpoint keeps the position, and a resumed stream reads what that holds again.
/// let position = planner.position();
/// let mut resumed = fresh()?.resume(&position)?;
/// for id in position.pending.ids() {
///     resumed.push(sample(id))?;
/// }
/// assert_eq!(resumed.next_batch(), planner.next_batch());
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlanner<R, const AXES: usize> {
    pub(super) fit: Fit<R, AXES>,
    /// What tells the stream from others.
    pub(super) identity: StreamIdentity,
    pub(super) config: PlanConfig<AXES>,
    pub(super) limits: StreamLimits,
    pub(super) waiting: Vec<StreamSample<AXES>>,
    pub(super) waiting_bytes: Bytes,
    pub(super) ready: VecDeque<Planned<AXES>>,
    pub(super) n_ready: usize,
    pub(super) ready_bytes: Bytes,
    pub(super) window: Window<AXES>,
    pub(super) epoch: u64,
    /// Windows of the epoch that were planned.
    pub(super) n_windows: u64,
    pub(super) finished: bool,
    /// What a position holds, until all of it is there.
    pub(super) resuming: Option<Box<Resuming<StreamPosition<AXES>, AXES>>>,
    pub(super) stats: StreamStats,
}

impl<R: CapacityRule<AXES>, const AXES: usize> StreamPlanner<R, AXES> {
    /// Starts with an empty buffer.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::BelowOne`] when half of the buffer holds no sample, [`StreamError::StreamShares`] when shares
    /// are asked for, and what [`crate::BatchPlanner::try_new`] says of the configuration.
    pub fn try_new(rule: R, config: PlanConfig<AXES>, limits: StreamLimits) -> Result<Self, StreamError> {
        config.check()?;
        limits.check()?;
        if config.tasks.shares.is_some() {
            return Err(StreamError::StreamShares);
        }
        let fit = Fit::new(rule, &config);
        Ok(Self {
            fit,
            identity: StreamIdentity::new(config.seed, &config),
            config,
            limits,
            waiting: Vec::new(),
            waiting_bytes: Bytes::ZERO,
            ready: VecDeque::new(),
            n_ready: 0,
            ready_bytes: Bytes::ZERO,
            window: Window::default(),
            epoch: 0,
            n_windows: 0,
            finished: false,
            resuming: None,
            stats: StreamStats::default(),
        })
    }

    /// Takes the next sample of the stream, unless there is no room.
    ///
    /// # Errors
    ///
    /// [`IndexError::ZeroLength`]; [`StreamError::BufferedSample`] when the sample is larger than half of the
    /// buffer; [`crate::PlanError::MultipleAboveBudget`] when so many as long as it do not fit; [`crate::PlanError::Oversize`] when it
    /// does not fit even alone and is to be refused; [`StreamError::NotPending`] when others of a position come first.
    pub fn push(&mut self, sample: StreamSample<AXES>) -> Result<Pushed, StreamError> {
        let StreamSample { id, lengths, bytes, .. } = sample;
        if let Some(axis) = lengths.iter().position(|length| *length == 0) {
            return Err(IndexError::ZeroLength { id, axis }.into());
        }
        if let Some(resuming) = &mut self.resuming {
            // It had room before.
            resuming.push(sample)?;
            self.count();
            self.rebuild()?;
            return Ok(Pushed::Held);
        }
        self.limits.check_sample(id, bytes)?;
        let (n_held, held) = self.held();
        if n_held >= self.limits.samples || held.saturating_add(bytes) > self.limits.bytes {
            self.stats.times_full += 1;
            return Ok(Pushed::Full);
        }
        if !self.takes(&sample)? {
            return Ok(Pushed::Skipped);
        }
        self.hold(sample);
        Ok(Pushed::Held)
    }

    /// Takes the next batch; `None` when none is ready.
    pub fn next_batch(&mut self) -> Option<StreamBatch<AXES>> {
        let batch = self.take_ready();
        self.stats.times_empty += u64::from(batch.is_none() && !self.finished);
        batch.map(Planned::into_batch)
    }

    /// Takes the next batch with all that is known of its samples.
    pub(super) fn take_ready(&mut self) -> Option<Planned<AXES>> {
        let batch = self.ready.pop_front()?;
        self.stats.batches += 1;
        self.stats.truncated += batch.n_truncated();
        self.n_ready -= batch.samples.len();
        self.ready_bytes = self.ready_bytes.saturating_sub(batch.bytes());
        Some(batch)
    }

    /// Takes back what was taken last.
    pub(super) fn put_back(&mut self, batch: Planned<AXES>) {
        self.stats.batches -= 1;
        self.stats.truncated -= batch.n_truncated();
        self.n_ready += batch.samples.len();
        self.ready_bytes = self.ready_bytes.saturating_add(batch.bytes());
        self.ready.push_front(batch);
    }

    /// Follows another capacity rule: what waits is planned by it, and so is what was planned and no longer fits.
    ///
    /// Where it has no room for a multiple, batches have as many samples as fit from then on.
    ///
    /// # Errors
    ///
    /// [`crate::PlanError::Oversize`] when a sample no longer fits even alone and is to be refused; the stream then goes on
    /// as before.
    pub fn change(&mut self, rule: R) -> Result<(), StreamError>
    where
        R: Clone,
    {
        let mut changed = self.clone();
        changed.fit.follow(rule);
        if changed.resuming.is_none() {
            changed.refit()?;
        }
        *self = changed;
        Ok(())
    }

    /// Plans anew what no longer fits.
    pub(super) fn refit(&mut self) -> Result<(), StreamError> {
        let mut samples = Vec::new();
        for batch in std::mem::take(&mut self.ready) {
            if batch.samples.len() <= self.fit.capacity(batch.cell) as usize {
                self.ready.push_back(batch);
                continue;
            }
            self.n_ready -= batch.samples.len();
            self.ready_bytes = self.ready_bytes.saturating_sub(batch.bytes());
            samples.extend(batch.samples);
        }
        samples.append(&mut self.waiting);
        for sample in samples {
            if self.takes(&sample)? {
                self.waiting.push(sample);
            }
        }
        self.waiting_bytes = self.waiting.iter().map(|sample| sample.bytes).sum();
        if self.finished {
            self.plan(true);
        } else {
            self.plan_half();
        }
        Ok(())
    }

    /// Plans what is left when the stream has ended, unless there are samples of a position that have not come yet.
    pub fn finish(&mut self) {
        if self.resuming.is_none() {
            self.plan(true);
            self.finished = true;
        }
    }

    /// What is wanted of the batches.
    pub const fn config(&self) -> &PlanConfig<AXES> {
        &self.config
    }

    /// What happened so far.
    pub const fn stats(&self) -> StreamStats {
        self.stats
    }

    /// Samples in the buffer, and their host memory.
    pub fn held(&self) -> (usize, Bytes) {
        if let Some(resuming) = &self.resuming {
            return resuming.n_held();
        }
        (self.waiting.len() + self.n_ready, self.waiting_bytes.saturating_add(self.ready_bytes))
    }

    fn hold(&mut self, sample: StreamSample<AXES>) {
        if self.finished {
            (self.finished, self.epoch, self.n_windows) = (false, self.epoch + 1, 0);
        }
        self.waiting.push(sample);
        self.waiting_bytes = self.waiting_bytes.saturating_add(sample.bytes);
        self.count();
        self.plan_half();
    }

    /// Counts a sample that is held from now on.
    fn count(&mut self) {
        let (n_held, held) = self.held();
        self.stats.samples += 1;
        self.stats.most_samples = self.stats.most_samples.max(n_held as u64);
        self.stats.most_bytes = self.stats.most_bytes.max(held);
    }

    /// Whether a sample takes part; it does not when it is to be skipped.
    pub(super) fn takes(&mut self, sample: &StreamSample<AXES>) -> Result<bool, StreamError> {
        let StreamSample { id, lengths, .. } = *sample;
        let planned = match self.config.oversize {
            _ if self.fit.capacity(lengths) > 0 => lengths,
            Oversize::Refuse => return Err(self.fit.refusal(id, lengths).into()),
            Oversize::Skip => {
                self.stats.skipped += 1;
                return Ok(false);
            }
            Oversize::Truncate => self.fit.cut(lengths).ok_or_else(|| self.fit.refusal(id, lengths))?,
        };
        self.fit.check_multiple(planned)?;
        Ok(true)
    }
}
