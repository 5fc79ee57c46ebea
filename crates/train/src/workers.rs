//! Threads that work ahead.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use plimsoll_probe::{Compartment, count_beside};

use crate::loader::LoaderError;

/// Threads that live as long as their owner; a panic in one becomes an error, never a shorter epoch.
///
/// A task may be done without a result, such as one that several of them share.
///
/// What they hold counts beside the steps that run meanwhile, in the compartment of whoever starts them, where that has
/// entered one.
pub(crate) struct Workers<T, R> {
    tasks: Option<Sender<T>>,
    done: Receiver<Result<R, LoaderError>>,
    threads: Vec<JoinHandle<()>>,
    /// Tasks that wait are not begun any more.
    stopped: Arc<AtomicBool>,
    /// How long their owner has waited for them.
    waited: Cell<Duration>,
}

/// What a task came to, where that is anything.
pub(crate) type Done<R> = Option<Result<R, LoaderError>>;

impl<T: Send + 'static, R: Send + 'static> Workers<T, R> {
    pub(crate) fn start(n_workers: usize, work: impl Fn(T) -> Done<R> + Send + Sync + 'static) -> Self {
        let (tasks, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let (work, stopped) = (Arc::new(work), Arc::new(AtomicBool::new(false)));
        let spawn = |_| {
            let (work, stopped) = (Arc::clone(&work), Arc::clone(&stopped));
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let compartment = Compartment::of_thread();
            std::thread::spawn(move || {
                compartment.into_iter().for_each(Compartment::enter);
                serve(&*work, &stopped, &inbox, &outbox);
            })
        };
        let threads = (0..n_workers.max(1)).map(spawn).collect();
        Self { tasks: Some(tasks), done, threads, stopped, waited: Cell::default() }
    }

    pub(crate) fn send(&self, task: T) {
        if let Some(tasks) = &self.tasks {
            // Fails only when every worker is gone, which the next `receive` reports.
            drop(tasks.send(task));
        }
    }

    pub(crate) fn receive(&self) -> Result<R, LoaderError> {
        let begun = Instant::now();
        let done = self.done.recv();
        self.waited.set(self.waited.get() + begun.elapsed());
        done.unwrap_or_else(|_| Err(LoaderError::WorkerPanicked("all workers are gone".to_owned())))
    }

    /// Returns how long [`Self::receive`] has waited so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Returns how many results nobody has received yet.
    pub(crate) fn n_done(&self) -> usize {
        self.done.len()
    }

    /// Returns what is done already, without waiting.
    pub(crate) fn try_receive(&self) -> Option<Result<R, LoaderError>> {
        self.done.try_recv().ok()
    }
}

impl<T, R> Drop for Workers<T, R> {
    fn drop(&mut self) {
        self.tasks = None;
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A worker's panic was already reported through the channel.
            drop(thread.join());
        }
    }
}

fn serve<T, R>(
    work: &dyn Fn(T) -> Done<R>,
    stopped: &AtomicBool,
    inbox: &Receiver<T>,
    outbox: &Sender<Result<R, LoaderError>>,
) {
    count_beside();
    for task in inbox {
        let done = catch_unwind(AssertUnwindSafe(|| work(task)))
            .unwrap_or_else(|panic| Some(Err(LoaderError::WorkerPanicked(message(panic.as_ref())))));
        if stopped.load(Ordering::Relaxed) || done.is_some_and(|done| outbox.send(done).is_err()) {
            return;
        }
    }
}

/// Returns what a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
