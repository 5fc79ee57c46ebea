//! Threads that run the parts of a step side by side.

use std::thread::{self, JoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::StepError;

/// Threads of one CPU, each of which computes alone, and runs parts of a step beside the others.
///
/// A part needs on each of them what it needs on a thread that is alone: none of them helps another with its kernels. What
/// they need at once is the sum.
///
/// Two of them with half of the samples each are faster than one part whose kernels are divided between two threads: most
/// kernels are too small for that.
///
/// Dropping them waits until they are gone, and what each keeps for its kernels: memory that is measured later does not fall
/// by it.
#[derive(Debug)]
pub struct Replicas {
    threads: Vec<ThreadPool>,
    /// What waits for each of them.
    handles: Vec<JoinHandle<()>>,
}

impl Replicas {
    /// Starts so many threads; each begins with `warm_up`, so that it has what it keeps for good before anything is measured.
    ///
    /// # Errors
    ///
    /// [`StepError::Device`] when the system has no room for them.
    pub fn start(n: usize, warm_up: impl Fn() + Sync) -> Result<Self, StepError> {
        let mut replicas = Self { threads: Vec::new(), handles: Vec::new() };
        for _ in 0..n {
            let handles = &mut replicas.handles;
            let pool = ThreadPoolBuilder::new().num_threads(1).spawn_handler(|it| {
                handles.push(thread::Builder::new().name("replica".to_owned()).spawn(|| it.run())?);
                Ok(())
            });
            replicas.threads.push(pool.build().map_err(|error| StepError::Device(error.to_string()))?);
        }
        replicas.run((0..n).map(|_| &warm_up).collect());
        Ok(replicas)
    }

    /// Returns how many parts run at once.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Does pieces of work, no more than there are threads, side by side; returns what each came to, in their order.
    ///
    /// # Panics
    ///
    /// As the work does.
    pub(crate) fn run<R: Send>(&self, work: Vec<impl FnOnce() -> R + Send>) -> Vec<R> {
        assert!(work.len() <= self.threads.len(), "{} pieces of work for {} threads", work.len(), self.threads.len());
        let mut results: Vec<_> = work.iter().map(|_| None).collect();
        side_by_side(&self.threads, work.into_iter(), &mut results);
        results.into_iter().map(|it| it.unwrap_or_else(|| unreachable!("each has a thread"))).collect()
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.threads.clear();
        // A panic of a thread is that of the work that it did.
        self.handles.drain(..).for_each(|it| drop(it.join()));
    }
}

/// Begins the first piece of work on the first thread, and all others meanwhile.
fn side_by_side<W: FnOnce() -> R + Send, R: Send>(
    threads: &[ThreadPool],
    mut work: impl Iterator<Item = W>,
    results: &mut [Option<R>],
) {
    let Some((thread, threads)) = threads.split_first() else { return };
    let (Some(first), Some((result, results))) = (work.next(), results.split_first_mut()) else { return };
    thread.in_place_scope(|scope| {
        scope.spawn(|_| *result = Some(first()));
        side_by_side(threads, work, results);
    });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_is_done_side_by_side_on_threads_of_its_own() {
        let replicas = Replicas::start(3, || ()).unwrap_or_else(|error| panic!("{error}"));
        let (all, here) = (Barrier::new(3), thread::current().id());
        let work = |n| {
            let all = &all;
            move || {
                // Passed only if all three are under way.
                all.wait();
                assert_eq!(rayon::current_num_threads(), 1);
                (n, thread::current().id() == here)
            }
        };
        assert_eq!(replicas.run((0..3).map(work).collect()), [(0, false), (1, false), (2, false)]);
        assert_eq!(replicas.run(vec![|| 7]), [7]);
    }

    #[test]
    fn whoever_drops_them_waits_until_what_they_keep_is_gone() {
        thread_local! { static KEPT: RefCell<Option<Slow>> = const { RefCell::new(None) } }
        struct Slow(Arc<AtomicUsize>);

        impl Drop for Slow {
            fn drop(&mut self) {
                thread::sleep(Duration::from_millis(20));
                self.0.fetch_add(1, SeqCst);
            }
        }
        let n_gone = Arc::new(AtomicUsize::new(0));
        let keep = || KEPT.set(Some(Slow(Arc::clone(&n_gone))));
        drop(Replicas::start(3, keep).unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(n_gone.load(SeqCst), 3);
    }
}
