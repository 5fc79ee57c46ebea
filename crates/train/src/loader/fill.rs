//! From ids to a filled buffer: what a worker does.

use crate::source::{Draw, Item, Source, SourceError};

/// What becomes of a sample that cannot be read, twice in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSample {
    /// The run ends with an error that names it.
    Fail,
    /// It is left out of its step, and counted.
    Skip,
}

/// A draw on its way through a worker, with the buffer that it fills.
pub(super) struct Task<S: Source> {
    pub(super) ticket: u64,
    pub(super) draw: Draw,
    /// The samples, where they were read before they were planned.
    pub(super) items: Option<Vec<S::Item>>,
    pub(super) buffer: S::Buffer,
}

/// A draw in its buffer.
pub(super) struct Filled<B> {
    pub(super) ticket: u64,
    /// Without what was left out.
    pub(super) draw: Draw,
    /// Length of each sample of the draw.
    pub(super) lengths: Vec<u32>,
    /// Task of each sample of the draw.
    pub(super) tasks: Vec<u16>,
    pub(super) skipped: Vec<u64>,
    pub(super) buffer: B,
}

/// Reads the samples of a draw and collates them, each with a second try.
pub(super) fn fill<S: Source>(
    source: &S,
    bad_sample: BadSample,
    task: Task<S>,
) -> Result<Filled<S::Buffer>, SourceError> {
    let Task { ticket, mut draw, items, mut buffer } = task;
    let (mut items, mut skipped) = match items {
        Some(items) => (items, Vec::new()),
        None => read_all(source, bad_sample, &draw)?,
    };
    draw.leave_out(&skipped);
    loop {
        if items.is_empty() {
            break;
        }
        match twice(|| source.collate(&draw, &items, &mut buffer)) {
            Ok(()) => break,
            Err(error) => {
                let at = draw.ids().position(|id| id == error.sample_id && bad_sample == BadSample::Skip);
                drop(items.remove(at.ok_or(error.clone())?));
                draw.leave_out(&[error.sample_id]);
                skipped.push(error.sample_id);
            }
        }
    }
    let lengths = items.iter().map(Item::length).collect();
    let tasks = items.iter().map(Item::task).collect();
    Ok(Filled { ticket, draw, lengths, tasks, skipped, buffer })
}

/// Returns the samples of a draw, and the ids of those that cannot be read.
fn read_all<S: Source>(
    source: &S,
    bad_sample: BadSample,
    draw: &Draw,
) -> Result<(Vec<S::Item>, Vec<u64>), SourceError> {
    let (mut items, mut skipped) = (Vec::with_capacity(draw.n_samples()), Vec::new());
    for id in draw.ids() {
        match read(source, bad_sample, draw.epoch, id)? {
            Some(item) => items.push(item),
            None => skipped.push(id),
        }
    }
    Ok((items, skipped))
}

/// Reads a sample, with a second try; `None` when it is to be skipped.
pub(super) fn read<S: Source>(
    source: &S,
    bad_sample: BadSample,
    epoch: u64,
    id: u64,
) -> Result<Option<S::Item>, SourceError> {
    match twice(|| source.read(epoch, id)) {
        Ok(item) => Ok(Some(item)),
        Err(_) if bad_sample == BadSample::Skip => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says that as many samples in a row as an epoch has cannot be read.
pub(super) fn none_readable(last: Option<u64>, n: u64) -> SourceError {
    SourceError { sample_id: last.unwrap_or(0), reason: format!("none of {n} samples in a row can be read") }
}

pub(crate) fn twice<T>(mut read: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    read().or_else(|_| read())
}
