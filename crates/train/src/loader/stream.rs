//! Steps out of samples whose lengths show when they are read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_sampler::{
    EpochEnd, PlanConfig, Pushed, StreamLimits, StreamPlanner, StreamSample, StreamStats, StreamSteps, TaskMix,
};
use plimsoll_types::Bytes;

use super::cursor::{Cursor, Next};
use super::fill::{none_readable, read};
use super::padded::{BatchSizes, PlannedDraw, drawn, plan};
use super::position::{LoaderPosition, OneKind, StreamedPosition};
use super::{LoaderConfig, LoaderError};
use crate::ahead::{Ahead, Room};
use crate::index::lengths;
use crate::source::{Item, Source, SourceError};
use crate::too_large::TooLarge;

/// An endless sequence of steps of a stream, whatever the axes of its samples.
pub(super) trait StreamedSteps<T>: Send {
    /// Returns the next step with its samples.
    fn next(&mut self) -> Result<StreamedStep<T>, LoaderError>;

    /// Returns where the next step begins.
    fn position(&self) -> LoaderPosition;

    /// Returns the sizes that the steps are made for.
    fn wanted(&self) -> &[u32];

    /// Follows other sizes from the next step on.
    fn change(&mut self, sizes: &[u32]) -> Result<(), LoaderError>;

    /// Leaves samples out from here on that are too large, and reads none of which that is known.
    fn leave_out_too_large(&mut self, too_large: TooLarge);

    /// Says what happened so far: empty is a step that had to wait for a sample, full a sample that had to wait for a step.
    fn stats(&self) -> StreamStats;

    /// Returns how many samples the look-ahead buffer holds, their bytes, and which part of its room they fill.
    fn buffered(&self) -> (u64, Bytes, f64);

    /// Returns how long steps have waited for samples to be read.
    fn waited(&self) -> Duration;
}

/// An endless sequence of steps, read ahead of need.
///
/// The samples go through the planner in their order, one by one as steps ask for them, so that the steps do not depend
/// on how fast which worker reads. There they go by their keys: one of a source that comes again is another one.
pub(super) struct Stream<S: Source, const AXES: usize> {
    steps: StreamSteps<BatchSizes<AXES>, AXES>,
    config: LoaderConfig,
    /// What the steps are made for.
    wanted: Vec<u32>,
    /// What was pushed and is in no step.
    items: HashMap<u64, S::Item>,
    /// The next sample to push.
    next: Cursor,
    /// The next sample to read.
    reading: Cursor,
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
    /// Which samples are left out because they are too large.
    too_large: TooLarge,
    n_samples: u64,
    source: Arc<S>,
}

/// Turn an epoch and an id into the sample.
type Readers<T> = Ahead<(u64, u64), Result<Arrived<T>, SourceError>>;

struct Arrived<T> {
    key: u64,
    found: Found<T>,
}

/// What became of a sample that was asked for.
enum Found<T> {
    Item(T),
    /// It cannot be read, and is left out.
    Unreadable,
    /// It is too large, and was not read in this epoch.
    TooLarge(u64),
}

/// A whole step with its samples, and those before it that could not be read.
pub(super) struct StreamedStep<T> {
    pub(super) planned: PlannedDraw,
    pub(super) items: Vec<T>,
    pub(super) skipped: Vec<u64>,
}

impl<S: Source, const AXES: usize> Stream<S, AXES> {
    /// Stands before the first step, or at a position, which knows the sizes of its batches.
    pub(super) fn try_new(
        source: &Arc<S>,
        config: &LoaderConfig,
        sizes: &[u32],
        position: Option<StreamedPosition<AXES>>,
    ) -> Result<Self, LoaderError> {
        let wanted = position.as_ref().map_or(sizes, |it| &it.wanted).to_vec();
        let rule = BatchSizes::new(config, &wanted);
        let mut planner =
            StreamPlanner::try_new(BatchSizes::most(config), stream_plan(&**source, config)?, limits(config))?;
        planner.change(rule)?;
        let n_samples = source.n_samples();
        let next = Cursor::try_new(&**source, config, position.as_ref().map(|it| &it.next))?;
        let steps = match position {
            None => StreamSteps::try_new(planner, config.step_size())?,
            Some(position) => StreamSteps::resume(planner, config.step_size(), &position.steps)?,
        }
        .with_room(config.largest_padded().positions());
        let (own, bad_sample) = (Arc::clone(source), config.bad_sample);
        let work = move |(epoch, key)| {
            let found = read(&*own, bad_sample, epoch, key % n_samples)?.map_or(Found::Unreadable, Found::Item);
            Ok(Arrived { key, found })
        };
        let room = Room { bytes: Bytes(config.buffer_limit.0 / 4), values: (config.look_ahead as u64 / 2).max(1) };
        Ok(Self {
            pending: steps.missing().collect(),
            steps,
            config: config.clone(),
            wanted,
            items: HashMap::new(),
            reading: next.clone(),
            next,
            n_pending_asked: 0,
            readers: Ahead::start(config.workers, room, bytes, work),
            skipped: Vec::new(),
            n_unreadable: 0,
            n_waits: 0,
            n_full: 0,
            too_large: TooLarge::default(),
            n_samples,
            source: Arc::clone(source),
        })
    }

    /// Whether it is known that a sample is too large.
    fn is_too_large(&self, key: u64) -> bool {
        self.source.expected_extent(key % self.n_samples).is_some_and(|it| self.too_large.has(it))
    }

    /// Pushes the next sample, or leaves it out.
    fn push(&mut self) -> Result<(), LoaderError> {
        self.read_ahead();
        let Arrived { key, found } = self.arrived()?;
        self.n_unreadable += 1;
        match found {
            // There is more memory by now: it comes again when it is read.
            Found::TooLarge(epoch) if !self.is_too_large(key) => {
                self.n_unreadable -= 1;
                self.readers.ask_again((epoch, key));
                return Ok(());
            }
            Found::Unreadable | Found::TooLarge(_) => self.leave_out(key)?,
            Found::Item(item) if self.too_large.has(item.extent()) => self.leave_out(key)?,
            Found::Item(item) => {
                match self.steps.push(self.sample(key, &item)?)? {
                    Pushed::Held => {
                        self.n_unreadable = 0;
                        self.items.insert(key, item);
                    }
                    Pushed::Skipped => self.skipped.push(key % self.n_samples),
                    Pushed::Full => {
                        // A step is whole: the sample comes again after it.
                        self.readers.put_back(Ok(Arrived { key, found: Found::Item(item) }));
                        return Ok(());
                    }
                }
            }
        }
        self.go_on();
        if self.n_unreadable < self.n_samples {
            return Ok(());
        }
        Err(none_readable(Some(key % self.n_samples), self.n_samples).into())
    }

    /// Describes an item to the planner.
    fn sample(&self, key: u64, item: &S::Item) -> Result<StreamSample<AXES>, SourceError> {
        let n_axes = item.extent().n_axes();
        let other = || SourceError {
            sample_id: key % self.n_samples,
            reason: format!("it has lengths along {n_axes} axes, and its stream along {AXES}"),
        };
        let lengths = lengths(item.extent()).ok_or_else(other)?;
        Ok(StreamSample { id: key, lengths, task: item.task(), bytes: item.bytes() })
    }

    /// Leaves a sample out, for which nobody waits from now on.
    fn leave_out(&mut self, key: u64) -> Result<(), LoaderError> {
        self.skipped.push(key % self.n_samples);
        self.steps.leave_out(key)?;
        Ok(())
    }

    /// Counts the next sample as pushed, or left out, and ends the epoch after its last one.
    fn go_on(&mut self) {
        if self.pending.pop_front().is_some() {
            self.n_pending_asked -= 1;
        } else if self.next.take().ends_epoch {
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
        if let Some(key) = self.pending.get(self.n_pending_asked) {
            self.n_pending_asked += 1;
            self.ask_for(self.steps.epoch(), *key);
            return;
        }
        let Next { epoch, key, .. } = self.reading.take();
        self.ask_for(epoch, key);
    }

    fn ask_for(&mut self, epoch: u64, key: u64) {
        if self.is_too_large(key) {
            self.readers.put(Ok(Arrived { key, found: Found::TooLarge(epoch) }));
        } else {
            self.readers.ask((epoch, key));
        }
    }
}

impl<S: Source, const AXES: usize> StreamedSteps<S::Item> for Stream<S, AXES>
where
    StreamedPosition<AXES>: OneKind,
{
    fn next(&mut self) -> Result<StreamedStep<S::Item>, LoaderError> {
        loop {
            if let Some(mut step) = self.steps.next_step() {
                let keys = step.batches.iter_mut().flat_map(|batch| &mut batch.ids);
                let item = |key: &mut u64| self.items.remove(&std::mem::replace(key, *key % self.n_samples));
                let items = keys.filter_map(item).collect();
                let (planned, skipped) = (drawn(step), std::mem::take(&mut self.skipped));
                return Ok(StreamedStep { planned, items, skipped });
            }
            self.push()?;
        }
    }

    fn position(&self) -> LoaderPosition {
        let (steps, next, wanted) = (self.steps.position(), self.next.position(), self.wanted.clone());
        StreamedPosition { steps, next, wanted }.into()
    }

    fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    fn change(&mut self, sizes: &[u32]) -> Result<(), LoaderError> {
        self.steps.change(BatchSizes::new(&self.config, sizes))?;
        self.wanted = sizes.to_vec();
        Ok(())
    }

    fn leave_out_too_large(&mut self, too_large: TooLarge) {
        self.too_large = too_large;
    }

    fn stats(&self) -> StreamStats {
        StreamStats { times_empty: self.n_waits, times_full: self.n_full, ..self.steps.stats() }
    }

    fn buffered(&self) -> (u64, Bytes, f64) {
        let (limits, (n_held, held)) = (limits(&self.config), self.steps.held());
        let of_samples = n_held as f64 / limits.samples as f64;
        (n_held as u64, held, of_samples.max(held.share_of(limits.bytes)))
    }

    fn waited(&self) -> Duration {
        self.readers.waited()
    }
}

/// Returns how samples become batches: those of sources come in their shares already.
fn stream_plan<const AXES: usize>(
    source: &impl Source,
    config: &LoaderConfig,
) -> Result<PlanConfig<AXES>, LoaderError> {
    let mut plan = plan(config)?;
    if plan.tasks.shares.is_some() && !source.sources().is_empty() {
        plan.tasks = TaskMix { shares: None, ends: EpochEnd::default(), ..plan.tasks };
    }
    Ok(plan)
}

/// Returns what the look-ahead buffer may hold: half of the samples, and of the bytes, wait for it outside.
fn limits(config: &LoaderConfig) -> StreamLimits {
    StreamLimits { samples: config.look_ahead.max(2), bytes: Bytes(config.buffer_limit.0 / 4) }
}

fn bytes<T: Item>(arrived: &Result<Arrived<T>, SourceError>) -> Bytes {
    if let Ok(Arrived { found: Found::Item(item), .. }) = arrived { item.bytes() } else { Bytes::ZERO }
}
