//! Steps out of samples whose lengths show when they are read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_sampler::{
    EpochCursor, PlannedStep, Pushed, StreamLimits, StreamPlanner, StreamSample, StreamStats, StreamStepPosition,
    StreamSteps,
};
use plimsoll_types::Bytes;
use serde::{Deserialize, Serialize};

use super::fill::{none_readable, read};
use super::padded::BatchSizes;
use super::{LoaderConfig, LoaderError};
use crate::ahead::{Ahead, Room};
use crate::source::{Item, Source, SourceError};

/// Where the next step of a stream begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPosition {
    /// In the steps.
    pub steps: StreamStepPosition,
    /// The next sample that is read, after those that are pending.
    pub next: EpochCursor,
    /// What the steps were made for.
    pub wanted: Vec<u32>,
}

/// An endless sequence of steps, read ahead of need.
///
/// The samples go through the planner in their order, one by one as steps ask for them, so that the steps do not depend
/// on how fast which worker reads.
pub(super) struct Stream<S: Source> {
    steps: StreamSteps<BatchSizes<1>>,
    /// What was pushed and is in no step.
    items: HashMap<u64, S::Item>,
    /// The next sample to push.
    next: EpochCursor,
    /// The next sample to read.
    reading: EpochCursor,
    /// Samples that an earlier part of the run had pushed, and this one has not yet: they come first.
    pending: VecDeque<u64>,
    /// How many of them were asked for.
    n_pending_asked: usize,
    readers: Readers<S::Item>,
    skipped: Vec<u64>,
    /// Samples since the last that was held.
    n_unreadable: u64,
    n_waits: u64,
    n_full: u64,
    limits: StreamLimits,
    /// The longest samples that are not left out, where some are.
    longest: Option<u32>,
    source: Arc<S>,
}

/// Turn an epoch and an id into the sample.
type Readers<T> = Ahead<(u64, u64), Result<Arrived<T>, SourceError>>;

struct Arrived<T> {
    id: u64,
    found: Found<T>,
}

/// What became of a sample that was asked for.
enum Found<T> {
    Item(T),
    /// It cannot be read, and is left out.
    Unreadable,
    /// It is too long, and was not read in this epoch.
    TooLong(u64),
}

/// A whole step with its samples, and those before it that could not be read.
pub(super) struct StreamedStep<T> {
    pub(super) step: PlannedStep,
    pub(super) items: Vec<T>,
    pub(super) skipped: Vec<u64>,
}

impl<S: Source> Stream<S> {
    pub(super) fn try_new(
        source: &Arc<S>,
        config: &LoaderConfig,
        planner: StreamPlanner<BatchSizes<1>, 1>,
        position: Option<&StreamedPosition>,
    ) -> Result<Self, LoaderError> {
        let n_samples = source.n_samples();
        let (steps, next, pending) = match position {
            None => {
                let next = EpochCursor::try_new(n_samples, config.seed)?;
                (StreamSteps::try_new(planner, config.step_size())?, next, VecDeque::new())
            }
            Some(StreamedPosition { steps, next, .. }) => {
                let steps = StreamSteps::resume(planner, config.step_size(), steps)?;
                let pending = steps.missing().collect();
                (steps, next.clone(), pending)
            }
        };
        let (own, bad_sample) = (Arc::clone(source), config.bad_sample);
        let work = move |(epoch, id)| {
            let found = read(&*own, bad_sample, epoch, id)?.map_or(Found::Unreadable, Found::Item);
            Ok(Arrived { id, found })
        };
        let room = Room { bytes: Bytes(config.buffer_limit.0 / 4), values: (config.look_ahead as u64 / 2).max(1) };
        Ok(Self {
            steps,
            items: HashMap::new(),
            reading: next.clone(),
            next,
            pending,
            n_pending_asked: 0,
            readers: Ahead::start(config.workers, room, bytes, work),
            skipped: Vec::new(),
            n_unreadable: 0,
            n_waits: 0,
            n_full: 0,
            limits: Self::limits(config),
            longest: None,
            source: Arc::clone(source),
        })
    }

    /// Returns what the look-ahead buffer may hold: half of the samples, and of the bytes, wait for it outside.
    pub(super) fn limits(config: &LoaderConfig) -> StreamLimits {
        StreamLimits { samples: config.look_ahead.max(2), bytes: Bytes(config.buffer_limit.0 / 4) }
    }

    pub(super) fn next(&mut self) -> Result<StreamedStep<S::Item>, LoaderError> {
        loop {
            if let Some(step) = self.steps.next_step() {
                let ids = step.batches.iter().flat_map(|batch| &batch.ids);
                let items = ids.filter_map(|id| self.items.remove(id)).collect();
                return Ok(StreamedStep { step, items, skipped: std::mem::take(&mut self.skipped) });
            }
            self.push()?;
        }
    }

    pub(super) fn position(&self, wanted: &[u32]) -> StreamedPosition {
        StreamedPosition { steps: self.steps.position(), next: self.next.clone(), wanted: wanted.to_vec() }
    }

    pub(super) fn change(&mut self, rule: BatchSizes<1>) -> Result<(), LoaderError> {
        Ok(self.steps.change(rule)?)
    }

    /// Leaves samples out from here on that are longer than this, and reads none of which that is known.
    pub(super) fn leave_out_longer(&mut self, longest: Option<u32>) {
        self.longest = longest;
    }

    fn is_too_long(&self, length: Option<u32>) -> bool {
        self.longest.is_some_and(|longest| Some(longest) < length)
    }

    /// What happened so far: empty is a step that had to wait for a sample, full a sample that had to wait for a step.
    pub(super) fn stats(&self) -> StreamStats {
        StreamStats { times_empty: self.n_waits, times_full: self.n_full, ..self.steps.stats() }
    }

    /// Returns how many samples the look-ahead buffer holds, their bytes, and which part of its room they fill.
    pub(super) fn buffered(&self) -> (u64, Bytes, f64) {
        let ((n_held, held), n_held_at_most) = (self.steps.held(), self.limits.samples);
        let of_samples = n_held as f64 / n_held_at_most as f64;
        (n_held as u64, held, of_samples.max(held.share_of(self.limits.bytes)))
    }

    pub(super) fn waited(&self) -> Duration {
        self.readers.waited()
    }

    /// Pushes the next sample, or leaves it out.
    fn push(&mut self) -> Result<(), LoaderError> {
        self.read_ahead();
        let Arrived { id, found } = self.arrived()?;
        self.n_unreadable += 1;
        match found {
            // There is more memory by now: it comes again when it is read.
            Found::TooLong(epoch) if !self.is_too_long(self.source.expected_length(id)) => {
                self.n_unreadable -= 1;
                self.readers.ask_again((epoch, id));
                return Ok(());
            }
            Found::Unreadable | Found::TooLong(_) => self.leave_out(id)?,
            Found::Item(item) if self.is_too_long(Some(item.extent().edge())) => self.leave_out(id)?,
            Found::Item(item) => {
                let (lengths, bytes) = ([item.extent().edge()], item.bytes());
                let pushed = self.steps.push(StreamSample { id, lengths, task: item.task(), bytes })?;
                match pushed {
                    Pushed::Held => {
                        self.n_unreadable = 0;
                        self.items.insert(id, item);
                    }
                    Pushed::Skipped => self.skipped.push(id),
                    Pushed::Full => {
                        // A step is whole: the sample comes again after it.
                        self.readers.put_back(Ok(Arrived { id, found: Found::Item(item) }));
                        return Ok(());
                    }
                }
            }
        }
        self.go_on();
        if self.n_unreadable < self.next.n_samples {
            return Ok(());
        }
        Err(none_readable(Some(id), self.next.n_samples).into())
    }

    /// Leaves a sample out, for which nobody waits from now on.
    fn leave_out(&mut self, id: u64) -> Result<(), LoaderError> {
        self.skipped.push(id);
        self.steps.leave_out(id)?;
        Ok(())
    }

    /// Counts the next sample as pushed, or left out, and ends the epoch after its last one.
    fn go_on(&mut self) {
        if self.pending.pop_front().is_some() {
            self.n_pending_asked -= 1;
            return;
        }
        self.next.take(1);
        if self.next.position == 0 {
            self.steps.finish();
        }
    }

    /// Returns the next sample in order, and waits for it where it must.
    fn arrived(&mut self) -> Result<Arrived<S::Item>, LoaderError> {
        self.n_waits += u64::from(!self.readers.is_ready()?);
        Ok(self.readers.take()??)
    }

    /// Asks the workers for more samples while there is room for them.
    fn read_ahead(&mut self) {
        while self.readers.wants_more() {
            self.ask();
        }
        self.n_full += 1;
    }

    fn ask(&mut self) {
        if let Some(id) = self.pending.get(self.n_pending_asked) {
            self.n_pending_asked += 1;
            self.ask_for(self.steps.epoch(), *id);
            return;
        }
        let (epoch, ids) = self.reading.take(1);
        for id in ids {
            self.ask_for(epoch, id);
        }
    }

    fn ask_for(&mut self, epoch: u64, id: u64) {
        if self.is_too_long(self.source.expected_length(id)) {
            self.readers.put(Ok(Arrived { id, found: Found::TooLong(epoch) }));
        } else {
            self.readers.ask((epoch, id));
        }
    }
}

fn bytes<T: Item>(arrived: &Result<Arrived<T>, SourceError>) -> Bytes {
    if let Ok(Arrived { found: Found::Item(item), .. }) = arrived { item.bytes() } else { Bytes::ZERO }
}
