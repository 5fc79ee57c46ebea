//! The threads that collate.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::loader::LoaderError;
use crate::source::{Draw, Source};

/// A draw on its way through a worker, with the buffer that it fills.
pub(crate) struct Task<B> {
    pub(crate) ticket: u64,
    pub(crate) draw: Draw,
    pub(crate) buffer: B,
}

/// Threads that live as long as their loader; a panic in one becomes an error, never a shorter epoch.
pub(crate) struct Workers<B> {
    tasks: Option<Sender<Task<B>>>,
    done: Receiver<Result<Task<B>, LoaderError>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B: Send + 'static> Workers<B> {
    pub(crate) fn start<S: Source<Buffer = B>>(source: &Arc<S>, n_workers: usize) -> Self {
        let (tasks, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let spawn = |_| {
            let (source, inbox, outbox) = (Arc::clone(source), inbox.clone(), outbox.clone());
            std::thread::spawn(move || serve(&*source, &inbox, &outbox))
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

    pub(crate) fn receive(&self) -> Result<Task<B>, LoaderError> {
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
    inbox: &Receiver<Task<S::Buffer>>,
    outbox: &Sender<Result<Task<S::Buffer>, LoaderError>>,
) {
    for mut task in inbox {
        let collated = catch_unwind(AssertUnwindSafe(|| source.collate(&task.draw, &mut task.buffer)));
        let done = match collated {
            Ok(Ok(())) => Ok(task),
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => Err(LoaderError::WorkerPanicked(message(panic.as_ref()))),
        };
        if outbox.send(done).is_err() {
            return;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
