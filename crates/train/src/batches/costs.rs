//! What each sample costs.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataset::Dataset;

use super::error::BatchesError;
use crate::workers::message;

/// Reads every sample once, with several threads, and says something of each.
///
/// Of several samples that cannot be read, the error names the first.
pub(super) fn read_all<I, T: Send>(
    dataset: &dyn Dataset<I>,
    say: &(dyn Fn(usize, &I) -> Result<T, BatchesError> + Sync),
    n_workers: usize,
) -> Result<Vec<T>, BatchesError> {
    let n_samples = dataset.len();
    let first_bad = AtomicUsize::new(usize::MAX);
    let read = |sample| {
        let found = read(dataset, sample).and_then(|item| say(sample, &item));
        found.inspect_err(|_| {
            first_bad.fetch_min(sample, Ordering::Relaxed);
        })
    };
    let read_some = |samples: Range<usize>| -> Result<Vec<T>, BatchesError> {
        samples.take_while(|it| *it <= first_bad.load(Ordering::Relaxed)).map(read).collect()
    };
    let each = n_samples.div_ceil(n_workers);
    let chunks: Vec<_> = std::thread::scope(|scope| {
        let spawn = |start: usize| scope.spawn(move || read_some(start..n_samples.min(start + each)));
        let threads: Vec<_> = (0..n_samples).step_by(each).map(spawn).collect();
        threads.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    Ok(chunks.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Reads a sample.
pub(super) fn read<I>(dataset: &dyn Dataset<I>, sample: usize) -> Result<I, BatchesError> {
    guarded(sample, || dataset.get(sample))?.map_err(|error| BatchesError::Read { sample, error })
}

/// Does something with a sample that may panic.
pub(super) fn guarded<T>(sample: usize, work: impl FnOnce() -> T) -> Result<T, BatchesError> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| BatchesError::ReadPanicked { sample, message: message(panic.as_ref()) })
}

/// Refuses a column of costs that is not that of so many samples.
pub(super) fn check_column(costs: &[usize], n_samples: usize) -> Result<(), BatchesError> {
    if costs.len() == n_samples { Ok(()) } else { Err(BatchesError::CostCount { n_costs: costs.len(), n_samples }) }
}

/// Returns a cost that a plan can hold, or 0 where a sample that costs nothing may be left out.
pub(super) fn as_cost(sample: usize, cost: usize, may_be_nothing: bool) -> Result<u32, BatchesError> {
    let found = u32::try_from(cost).ok().filter(|it| 0 < *it || may_be_nothing);
    found.ok_or(BatchesError::Cost { sample, cost })
}
