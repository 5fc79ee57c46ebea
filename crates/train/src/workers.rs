//! The threads that read and collate.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::{Deserialize, Serialize};

use crate::loader::LoaderError;
use crate::source::{Draw, Item, Source, SourceError};

/// What becomes of a sample that cannot be read, twice in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadSample {
    /// The run ends with an error that names it.
    Fail,
    /// It is left out of its step, and counted.
    Skip,
}

/// A draw on its way through a worker, with the buffer that it fills.
pub(crate) struct Task<B> {
    pub(crate) ticket: u64,
    pub(crate) draw: Draw,
    pub(crate) buffer: B,
}

/// A draw in its buffer.
pub(crate) struct Filled<B> {
    pub(crate) ticket: u64,
    /// Without what was left out.
    pub(crate) draw: Draw,
    /// Length of each sample of the draw.
    pub(crate) lengths: Vec<u32>,
    pub(crate) skipped: Vec<u64>,
    pub(crate) buffer: B,
}

/// Threads that live as long as their loader; a panic in one becomes an error, never a shorter epoch.
pub(crate) struct Workers<B> {
    tasks: Option<Sender<Task<B>>>,
    done: Receiver<Result<Filled<B>, LoaderError>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Workers<B> {
    pub(crate) fn start<S: Source<Buffer = B>>(source: &Arc<S>, n_workers: usize, bad_sample: BadSample) -> Self {
        let (tasks, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let spawn = |_| {
            let (source, inbox, outbox) = (Arc::clone(source), inbox.clone(), outbox.clone());
            std::thread::spawn(move || serve(&*source, bad_sample, &inbox, &outbox))
        };
        let threads = (0..n_workers).map(spawn).collect();
        Self { tasks: Some(tasks), done, threads }
    }

    pub(crate) fn send(&self, task: Task<B>) {
        if let Some(tasks) = &self.tasks {
            // Fails only when every worker is gone, which the next `receive` reports.
            drop(tasks.send(task));
        }
    }

    pub(crate) fn receive(&self) -> Result<Filled<B>, LoaderError> {
        self.done.recv().unwrap_or_else(|_| Err(LoaderError::WorkerPanicked("all workers are gone".to_owned())))
    }
}

impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // A worker's panic was already reported through the channel.
            drop(thread.join());
        }
    }
}

fn serve<S: Source>(
    source: &S,
    bad_sample: BadSample,
    inbox: &Receiver<Task<S::Buffer>>,
    outbox: &Sender<Result<Filled<S::Buffer>, LoaderError>>,
) {
    for task in inbox {
        let done = match catch_unwind(AssertUnwindSafe(|| fill(source, task, bad_sample))) {
            Ok(filled) => filled.map_err(LoaderError::from),
            Err(panic) => Err(LoaderError::WorkerPanicked(message(panic.as_ref()))),
        };
        if outbox.send(done).is_err() {
            return;
        }
    }
}

/// Reads the samples of a draw and collates them, each with a second try.
fn fill<S: Source>(source: &S, task: Task<S::Buffer>, bad_sample: BadSample) -> Result<Filled<S::Buffer>, SourceError> {
    let Task { ticket, mut draw, mut buffer } = task;
    let (mut items, mut skipped) = (Vec::with_capacity(draw.n_samples()), Vec::new());
    for id in draw.ids() {
        match twice(|| source.read(draw.epoch, id)) {
            Ok(item) => items.push(item),
            Err(_) if bad_sample == BadSample::Skip => skipped.push(id),
            Err(error) => return Err(error),
        }
    }
    draw.leave_out(&skipped);
    loop {
        let tried = if items.is_empty() { nothing_left(&skipped) } else { Ok(()) };
        match tried.and_then(|()| twice(|| source.collate(&draw, &items, &mut buffer))) {
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
    Ok(Filled { ticket, draw, lengths, skipped, buffer })
}

fn nothing_left(skipped: &[u64]) -> Result<(), SourceError> {
    let reason = format!("none of the {} samples of its step can be read", skipped.len());
    Err(SourceError { sample_id: skipped.last().copied().unwrap_or(0), reason })
}

fn twice<T>(mut read: impl FnMut() -> Result<T, SourceError>) -> Result<T, SourceError> {
    read().or_else(|_| read())
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
