//! From ids to a filled buffer: what workers do.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_types::Extent;

use crate::source::{Draw, Item, Source, SourceError};

/// What becomes of a sample that cannot be read, twice in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSample {
    /// The run ends with an error that names it.
    Fail,
    /// It is left out of its step, and counted.
    Skip,
}

/// A draw and the buffer that it is to fill.
pub(super) struct Task<S: Source> {
    pub(super) ticket: u64,
    pub(super) draw: Draw,
    /// The samples, where they were read before they were planned.
    pub(super) items: Option<Vec<S::Item>>,
    /// Whether this rank runs each sample; empty where it reads all.
    pub(super) is_own: Vec<bool>,
    pub(super) buffer: S::Buffer,
}

/// A buffer that a draw was to fill.
pub(super) struct Filled<B> {
    pub(super) ticket: u64,
    pub(super) buffer: B,
    /// What is in it, or why that is nothing.
    pub(super) content: Result<Content, SourceError>,
}

/// A draw in its buffer.
pub(super) struct Content {
    /// Without what was left out.
    pub(super) draw: Draw,
    /// Lengths of each sample of the draw.
    pub(super) extents: Vec<Extent>,
    /// What each sample of the draw counts in a mean over positions.
    pub(super) counted: Vec<u64>,
    /// Task of each sample of the draw.
    pub(super) tasks: Vec<u16>,
    pub(super) skipped: Vec<u64>,
}

/// A draw whose samples are read by as many workers as there are, one sample each at a time; whoever reads the last one
/// collates them all.
pub(super) struct Filling<S: Source> {
    ticket: u64,
    draw: Draw,
    n_samples: usize,
    /// Whether this rank runs each sample; empty where it reads all.
    is_own: Vec<bool>,
    /// The first sample that nobody has begun to read.
    next: AtomicUsize,
    rest: Mutex<Rest<S>>,
}

/// What the workers of a draw share.
struct Rest<S: Source> {
    /// Of each sample what became of it, once it is read; empty before the first.
    read: Outcomes<S::Item>,
    n_missing: usize,
    /// Taken by the worker that collates.
    buffer: Option<S::Buffer>,
}

/// A sample, or `None` when it is to be skipped.
type Read<T> = Result<Option<T>, SourceError>;

/// What became of each sample of a step, once it was read.
type Outcomes<I> = Vec<Option<Read<I>>>;

impl<S: Source> Filling<S> {
    pub(super) fn new(Task { ticket, draw, items, is_own, buffer }: Task<S>) -> Self {
        let n_samples = draw.n_samples();
        let n_missing = if items.is_some() { 0 } else { n_samples };
        let read = items.into_iter().flatten().map(|item| Some(Ok(Some(item)))).collect();
        let rest = Mutex::new(Rest { read, n_missing, buffer: Some(buffer) });
        Self { ticket, draw, n_samples, is_own, next: AtomicUsize::new(n_samples - n_missing), rest }
    }

    /// Returns how many workers can do something for it.
    pub(super) fn n_helpers(&self) -> usize {
        let n_own = self.is_own.iter().filter(|it| **it).count();
        let n_left = self.n_samples - self.next.load(Relaxed).min(self.n_samples);
        (if self.is_own.is_empty() { n_left } else { n_own }).max(1)
    }

    /// Reads samples that nobody else reads, each with a second try, and collates all of them where none is missing then.
    ///
    /// What is made of them, an error too, does not depend on who reads which of them when.
    pub(super) fn help(&self, source: &S, bad_sample: BadSample) -> Option<Filled<S::Buffer>> {
        while let Some(at) = Some(self.next.fetch_add(1, Relaxed)).filter(|at| *at < self.n_samples) {
            let read = self.read(source, bad_sample, at);
            self.put(at, read);
        }
        let (read, mut buffer) = self.take_whole()?;
        let content = self.collated(source, bad_sample, read, &mut buffer);
        Some(Filled { ticket: self.ticket, buffer, content })
    }

    /// Reads a sample, or takes what stands for it where another rank does.
    fn read(&self, source: &S, bad_sample: BadSample, at: usize) -> Read<S::Item> {
        let Some(id) = self.draw.id(at) else { return Ok(None) };
        match self.is_own.get(at).and_then(|is_own| Some((is_own, source.stand_in(id)?))) {
            None => read(source, bad_sample, self.draw.epoch, id),
            Some((false, stand_in)) => Ok(Some(stand_in)),
            Some((true, stand_in)) => checked(id, read(source, bad_sample, self.draw.epoch, id), &stand_in),
        }
    }

    fn put(&self, at: usize, read: Read<S::Item>) {
        let mut rest = self.rest();
        if rest.read.is_empty() {
            // Here, because what a worker takes counts beside the steps that run meanwhile.
            rest.read.resize_with(self.n_samples, || None);
        }
        rest.read[at] = Some(read);
        rest.n_missing -= 1;
    }

    /// Returns what became of every sample, and the buffer, once and to one worker.
    fn take_whole(&self) -> Option<(Outcomes<S::Item>, S::Buffer)> {
        let mut rest = self.rest();
        let buffer = if rest.n_missing == 0 { rest.buffer.take() } else { None }?;
        Some((std::mem::take(&mut rest.read), buffer))
    }

    fn rest(&self) -> MutexGuard<'_, Rest<S>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collated(
        &self,
        source: &S,
        bad_sample: BadSample,
        read: Outcomes<S::Item>,
        buffer: &mut S::Buffer,
    ) -> Result<Content, SourceError> {
        let read = read.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        let is_missing = |(id, item): (u64, &Option<S::Item>)| item.is_none().then_some(id);
        let mut skipped: Vec<u64> = self.draw.ids().zip(&read).filter_map(is_missing).collect();
        let (mut draw, read) = without(&skipped, self.draw.clone(), read);
        let mut items: Vec<_> = read.into_iter().flatten().collect();
        while !items.is_empty() {
            match twice(|| source.collate(&draw, &items, buffer)) {
                Ok(()) => break,
                Err(error) if bad_sample == BadSample::Skip && draw.ids().any(|id| id == error.sample_id) => {
                    (draw, items) = without(&[error.sample_id], draw, items);
                    skipped.push(error.sample_id);
                }
                Err(error) => return Err(error),
            }
        }
        let extents = items.iter().map(Item::extent).collect();
        let counted = items.iter().map(Item::counted_positions).collect();
        let tasks = items.iter().map(Item::task).collect();
        Ok(Content { draw, extents, counted, tasks, skipped })
    }
}

/// Leaves samples out, each as often as it comes, and what there is of each.
fn without<T>(ids: &[u64], mut draw: Draw, of_each: Vec<T>) -> (Draw, Vec<T>) {
    if ids.is_empty() {
        return (draw, of_each);
    }
    let kept = draw.ids().zip(of_each).filter(|(id, _)| !ids.contains(id)).map(|it| it.1).collect();
    draw.leave_out(ids);
    (draw, kept)
}

/// Reads a sample, with a second try; `None` when it is to be skipped.
pub(super) fn read<S: Source>(source: &S, bad_sample: BadSample, epoch: u64, id: u64) -> Read<S::Item> {
    match twice(|| source.read(epoch, id)) {
        Ok(item) => Ok(Some(item)),
        Err(_) if bad_sample == BadSample::Skip => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a sample that is not what other ranks take it for, who go by what stands for it.
fn checked<I: Item>(sample_id: u64, read: Read<I>, stand_in: &I) -> Read<I> {
    let told = |it: &I| (it.extent(), it.counted_positions(), it.task());
    let Some(item) = read? else { return Ok(None) };
    if told(&item) == told(stand_in) {
        return Ok(Some(item));
    }
    let of = |(extent, counted, task)| format!("of {extent}, with {counted} positions that count, of task {task}");
    let (own, others) = (of(told(&item)), of(told(stand_in)));
    Err(SourceError {
        sample_id,
        reason: format!("it is {own}, and ranks that do not read it take it for one {others}"),
    })
}

/// Says that as many samples in a row as an epoch has cannot be read.
pub(super) fn none_readable(last: Option<u64>, n: u64) -> SourceError {
    SourceError { sample_id: last.unwrap_or(0), reason: format!("none of {n} samples in a row can be read") }
}

pub(crate) fn twice<T>(mut read: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    read().or_else(|_| read())
}
