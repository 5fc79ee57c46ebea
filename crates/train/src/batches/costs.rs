//! What each sample costs.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataset::Dataset;

use super::error::BatchesError;
use crate::workers::message;

/// Reads every sample once, with several threads.
///
/// Of several samples that cannot be read, the error names the first.
pub(super) fn read_costs<I>(
    dataset: &dyn Dataset<I>,
    cost: &(dyn Fn(&I) -> usize + Send + Sync),
    n_workers: usize,
) -> Result<Vec<u32>, BatchesError> {
    let n_samples = dataset.len();
    let first_bad = AtomicUsize::new(usize::MAX);
    let read = |sample| {
        let found = read(dataset, sample).and_then(|item| priced(sample, &item, cost));
        found.inspect_err(|_| {
            first_bad.fetch_min(sample, Ordering::Relaxed);
        })
    };
    let read_some = |samples: Range<usize>| -> Result<Vec<u32>, BatchesError> {
        samples.take_while(|it| *it <= first_bad.load(Ordering::Relaxed)).map(read).collect()
    };
    let each = n_samples.div_ceil(n_workers);
    let chunks: Vec<_> = std::thread::scope(|scope| {
        let spawn = |start: usize| scope.spawn(move || read_some(start..n_samples.min(start + each)));
        let threads: Vec<_> = (0..n_samples).step_by(each).map(spawn).collect();
        threads.into_iter().map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    Ok(chunks.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
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

fn priced<I>(sample: usize, item: &I, cost: &(dyn Fn(&I) -> usize + Send + Sync)) -> Result<u32, BatchesError> {
    as_cost(sample, guarded(sample, || cost(item))?)
}

/// Returns the costs of a column, if they are those of so many samples.
pub(super) fn checked(costs: &[usize], n_samples: usize) -> Result<Vec<u32>, BatchesError> {
    if costs.len() != n_samples {
        return Err(BatchesError::CostCount { n_costs: costs.len(), n_samples });
    }
    costs.iter().enumerate().map(|(sample, cost)| as_cost(sample, *cost)).collect()
}

/// Returns a cost that a plan can hold.
fn as_cost(sample: usize, cost: usize) -> Result<u32, BatchesError> {
    u32::try_from(cost).ok().filter(|it| 0 < *it).ok_or(BatchesError::Cost { sample, cost })
}
