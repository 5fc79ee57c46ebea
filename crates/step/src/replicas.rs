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
        let mut warm = vec![None; n];
        side_by_side(&replicas.threads, warm.iter_mut().map(|it| (&warm_up, it)), || ());
        Ok(replicas)
    }

    /// Returns how many parts run at once.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Does pieces of work, no more than there are threads, side by side; returns what each came to, in their order.
    ///
    /// The first is done by the caller, if that computes alone as they do: where it waited, it would take turns with them on a
    /// core.
    ///
    /// # Panics
    ///
    /// As the work does.
    pub(crate) fn run<R: Send>(&self, work: Vec<impl FnOnce() -> R + Send>) -> Vec<R> {
        assert!(work.len() <= self.threads.len(), "{} pieces of work for {} threads", work.len(), self.threads.len());
        let mut results: Vec<_> = work.iter().map(|_| None).collect();
        let mut work = work.into_iter().zip(&mut results);
        let is_alone = rayon::current_thread_index().is_some() && rayon::current_num_threads() == 1;
        let own = if is_alone { work.next() } else { None };
        let is_own = usize::from(own.is_some());
        side_by_side(&self.threads[is_own..], work, || {
            if let Some((work, result)) = own {
                *result = Some(work());
            }
        });
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

/// Begins each piece of work on a thread of its own, and meanwhile does what is to be done `here`.
fn side_by_side<'a, W: FnOnce() -> R + Send, R: Send + 'a>(
    threads: &[ThreadPool],
    mut work: impl Iterator<Item = (W, &'a mut Option<R>)>,
    here: impl FnOnce(),
) {
    let (Some((thread, threads)), Some((first, result))) = (threads.split_first(), work.next()) else { return here() };
    thread.in_place_scope(|scope| {
        scope.spawn(|_| *result = Some(first()));
        side_by_side(threads, work, here);
    });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::resume_unwind;
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
    fn a_caller_that_computes_alone_does_the_first_piece_beside_the_others() {
        let replicas = Replicas::start(3, || ()).unwrap_or_else(|error| panic!("{error}"));
        let alone = || {
            drop(ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
            let (all, here) = (Barrier::new(3), thread::current().id());
            let work = |_| {
                || {
                    all.wait();
                    thread::current().id() == here
                }
            };
            assert_eq!(replicas.run((0..3).map(work).collect()), [true, false, false]);
        };
        thread::scope(|scope| scope.spawn(alone).join()).unwrap_or_else(|panic| resume_unwind(panic));
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
