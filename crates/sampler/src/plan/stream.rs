//! Batches from a stream whose length nobody knows.

use std::collections::VecDeque;

use plimsoll_types::Bytes;

use super::arrange::by_variety;
use super::config::{Oversize, PlanConfig};
use super::entry::Entry;
use super::fit::Fit;
use super::streamed::{Planned, Pushed, StreamBatch, StreamLimits, StreamSample, StreamStats};
use super::tasks::Tasks;
use super::window::{Recipe, Window};
use crate::hash::{Rng, Use};
use crate::{CapacityRule, SamplerError};

/// Plans a stream through a bounded look-ahead buffer.
///
/// Half of the buffer fills up while the batches of the other half are taken.
/// A full half is planned as a window of an epoch is, and its partial batch goes into the next half.
/// The batches depend on the order of the samples alone, not on when they are pushed or taken.
/// A stream that has ended may begin again: the first sample after the end begins the next epoch.
/// The window, and the share of mates that may be kept, have no meaning here.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlanner<R, const AXES: usize> {
    fit: Fit<R, AXES>,
    config: PlanConfig<AXES>,
    limits: StreamLimits,
    waiting: Vec<StreamSample<AXES>>,
    waiting_bytes: Bytes,
    pub(super) ready: VecDeque<Planned<AXES>>,
    n_ready: usize,
    ready_bytes: Bytes,
    window: Window<AXES>,
    pub(super) epoch: u64,
    /// Windows of the epoch that were planned.
    pub(super) n_windows: u64,
    n_tasks: usize,
    pub(super) finished: bool,
    stats: StreamStats,
}

impl<R: CapacityRule<AXES>, const AXES: usize> StreamPlanner<R, AXES> {
    /// Starts with an empty buffer.
    ///
    /// # Errors
    ///
    /// [`SamplerError::BelowOne`] when half of the buffer holds no sample, [`SamplerError::StreamShares`] when shares
    /// are asked for, and what [`crate::BatchPlanner::try_new`] says of the configuration.
    pub fn try_new(rule: R, config: PlanConfig<AXES>, limits: StreamLimits) -> Result<Self, SamplerError> {
        config.check()?;
        if limits.samples < 2 || limits.bytes.0 < 2 {
            return Err(SamplerError::BelowOne { key: "half of the stream's buffer" });
        }
        if config.tasks.shares.is_some() {
            return Err(SamplerError::StreamShares);
        }
        let fit = Fit::new(rule, &config);
        Ok(Self {
            fit,
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
            n_tasks: 1,
            finished: false,
            stats: StreamStats::default(),
        })
    }

    /// Takes the next sample of the stream, unless there is no room.
    ///
    /// # Errors
    ///
    /// [`SamplerError::ZeroLength`]; [`SamplerError::BufferedSample`] when the sample is larger than half of the
    /// buffer; [`SamplerError::MultipleAboveBudget`] when so many as long as it do not fit; [`SamplerError::Oversize`] when it
    /// does not fit even alone and is to be refused.
    pub fn push(&mut self, mut sample: StreamSample<AXES>) -> Result<Pushed, SamplerError> {
        let StreamSample { id, lengths, bytes, .. } = sample;
        if let Some(axis) = lengths.iter().position(|length| *length == 0) {
            return Err(SamplerError::ZeroLength { id, axis });
        }
        let half = Bytes(self.limits.bytes.0 / 2);
        if bytes > half {
            return Err(SamplerError::BufferedSample { id, bytes, limit: half });
        }
        let (n_held, held) = self.held();
        if n_held >= self.limits.samples || held.saturating_add(bytes) > self.limits.bytes {
            self.stats.times_full += 1;
            return Ok(Pushed::Full);
        }
        if self.fit.capacity(lengths) == 0 {
            let Some(cut) = self.cut(id, lengths)? else { return Ok(Pushed::Skipped) };
            sample.lengths = cut;
        }
        self.fit.check_multiple(sample.lengths)?;
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
        self.n_ready -= batch.samples.len();
        self.ready_bytes = self.ready_bytes.saturating_sub(batch.bytes());
        Some(batch)
    }

    /// Takes back what was taken last.
    pub(super) fn put_back(&mut self, batch: Planned<AXES>) {
        self.stats.batches -= 1;
        self.n_ready += batch.samples.len();
        self.ready_bytes = self.ready_bytes.saturating_add(batch.bytes());
        self.ready.push_front(batch);
    }

    /// Follows another capacity rule: what waits is planned by it, and so is what was planned and no longer fits.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Oversize`] when a sample no longer fits even alone and is to be refused; the stream then goes on
    /// as before.
    pub fn change(&mut self, rule: R) -> Result<(), SamplerError>
    where
        R: Clone,
    {
        let mut changed = self.clone();
        changed.fit.rule = rule;
        changed.refit()?;
        *self = changed;
        Ok(())
    }

    fn refit(&mut self) -> Result<(), SamplerError> {
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
        for mut sample in samples {
            if self.fit.capacity(sample.lengths) == 0 {
                let Some(cut) = self.cut(sample.id, sample.lengths)? else { continue };
                sample.lengths = cut;
            }
            self.fit.check_multiple(sample.lengths)?;
            self.waiting.push(sample);
        }
        self.waiting_bytes = self.waiting.iter().map(|sample| sample.bytes).sum();
        if self.finished {
            self.plan(true);
        } else {
            self.plan_half();
        }
        Ok(())
    }

    /// Plans what is left when the stream has ended.
    pub fn finish(&mut self) {
        self.plan(true);
        self.finished = true;
    }

    /// What is wanted of the batches.
    pub const fn config(&self) -> &PlanConfig<AXES> {
        &self.config
    }

    /// What happened so far.
    pub const fn stats(&self) -> StreamStats {
        self.stats
    }

    /// The samples that are in no batch that was taken: what a resumed stream pushes first.
    pub fn pending(&self) -> impl Iterator<Item = u64> {
        self.ready.iter().flat_map(|batch| &batch.samples).chain(&self.waiting).map(|sample| sample.id)
    }

    /// Samples in the buffer, and their host memory.
    pub const fn held(&self) -> (usize, Bytes) {
        (self.waiting.len() + self.n_ready, self.waiting_bytes.saturating_add(self.ready_bytes))
    }

    fn hold(&mut self, sample: StreamSample<AXES>) {
        if self.finished {
            (self.finished, self.epoch, self.n_windows) = (false, self.epoch + 1, 0);
        }
        self.n_tasks = self.n_tasks.max(usize::from(sample.task) + 1);
        self.waiting.push(sample);
        self.waiting_bytes = self.waiting_bytes.saturating_add(sample.bytes);
        let (n_held, held) = self.held();
        self.stats.samples += 1;
        self.stats.most_samples = self.stats.most_samples.max(n_held as u64);
        self.stats.most_bytes = self.stats.most_bytes.max(held);
        self.plan_half();
    }

    /// Plans what waits when it is half of the buffer.
    fn plan_half(&mut self) {
        if self.waiting.len() >= self.limits.samples / 2 || self.waiting_bytes.0 >= self.limits.bytes.0 / 2 {
            self.plan(false);
        }
    }

    /// What is planned of a sample that does not fit even alone.
    fn cut(&mut self, id: u64, lengths: [u32; AXES]) -> Result<Option<[u32; AXES]>, SamplerError> {
        match self.config.oversize {
            Oversize::Refuse => Err(self.fit.refusal(id, lengths)),
            Oversize::Skip => {
                self.stats.skipped += 1;
                Ok(None)
            }
            Oversize::Truncate => {
                self.stats.truncated += 1;
                self.fit.cut(lengths).ok_or_else(|| self.fit.refusal(id, lengths)).map(Some)
            }
        }
    }

    /// Plans all samples that wait, and keeps partial batches for the next time unless it is the last.
    fn plan(&mut self, last: bool) {
        let most = (self.waiting.len() / 2).min(self.limits.samples / 4);
        self.plan_and_carry(last, most);
    }

    fn plan_and_carry(&mut self, last: bool, most: usize) {
        let Self { waiting, window, .. } = self;
        window.entries.clear();
        window.entries.extend(waiting.iter().zip(0..).map(|(sample, id)| Entry { lengths: sample.lengths, id }));
        let of: Vec<u16> = waiting.iter().map(|sample| sample.task).collect();
        let recipe = Recipe {
            config: &self.config,
            fit: &self.fit,
            tasks: (self.n_tasks > 1).then_some(Tasks { of: &of, n: self.n_tasks }),
            axes: &by_variety(&waiting.iter().map(|sample| self.fit.of(sample.lengths).0)),
            window_share: 0.0,
        };
        let mut rng = Rng::new(Use::Batches, self.config.seed, self.epoch, self.n_windows);
        // Samples that are padded alike keep their order, which in a stream may be anything.
        rng.shuffle(&mut window.entries);
        recipe.plan(window, &mut rng);
        let mut carried = Vec::new();
        if !last {
            window.take_partial(self.config.multiple_of, most, &mut carried);
        } else if self.config.drop_last {
            window.drop_ragged(self.config.multiple_of);
            self.stats.dropped += (waiting.len() - window.batches.n_samples()) as u64;
        }
        let left: Vec<_> = carried.into_iter().map(|slot: u32| waiting[slot as usize]).collect();
        let left_bytes = left.iter().map(|sample| sample.bytes).sum();
        if left_bytes > Bytes(self.limits.bytes.0 / 2) {
            // There would be no room for the next sample.
            return self.plan_and_carry(last, 0);
        }
        for batch in window.batches.iter() {
            let planned = Planned::new(waiting, batch);
            self.n_ready += planned.samples.len();
            self.ready_bytes = self.ready_bytes.saturating_add(planned.bytes());
            self.ready.push_back(planned);
        }
        (self.waiting, self.waiting_bytes) = (left, left_bytes);
        self.n_windows += 1;
    }
}
