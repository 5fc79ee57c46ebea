//! What each sample costs.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataset::Dataset;
use plimsoll_types::MAX_AXES;

use super::error::BatchesError;
use crate::workers::message;

/// The task of an item.
pub(super) type TaskOf<I> = Arc<dyn Fn(&I) -> u16 + Send + Sync>;

/// The lengths of an item, on as many axes as there are.
type LengthsOf<I> = Arc<dyn Fn(&I) -> [usize; MAX_AXES] + Send + Sync>;

/// Where the samples' lengths come from.
pub(super) enum Costs<I> {
    One,
    /// On so many axes.
    Of(LengthsOf<I>, usize),
    Column(Vec<usize>),
}

/// What is known of all samples.
pub(super) struct Columns {
    /// How long each is on each axis.
    pub(super) lengths: Vec<Vec<u32>>,
    /// The task of each, where they have any.
    pub(super) tasks: Option<Vec<u16>>,
}

impl<I: 'static> Costs<I> {
    /// The lengths of an item along so many axes.
    pub(super) fn along<const AXES: usize>(lengths: impl Fn(&I) -> [usize; AXES] + Send + Sync + 'static) -> Self {
        const { assert!(0 < AXES && AXES <= MAX_AXES, "a sample has one to three axes") };
        let padded = move |it: &I| {
            let lengths = lengths(it);
            std::array::from_fn(|axis| lengths.get(axis).copied().unwrap_or(1))
        };
        Self::Of(Arc::new(padded), AXES)
    }

    pub(super) const fn n_axes(&self) -> usize {
        if let Self::Of(_, n_axes) = self { *n_axes } else { 1 }
    }

    /// Returns what is known of each sample, and reads none that need not be read for it.
    pub(super) fn columns(
        &self,
        dataset: &dyn Dataset<I>,
        task: Option<&TaskOf<I>>,
        may_be_nothing: bool,
        n_workers: usize,
    ) -> Result<Columns, BatchesError> {
        let n_samples = dataset.len();
        if let Self::Column(costs) = self {
            check_column(costs, n_samples)?;
        }
        let known = |sample: usize| match self {
            Self::Column(costs) => costs[sample],
            Self::One | Self::Of(..) => 1,
        };
        if task.is_none() && !matches!(self, Self::Of(..)) {
            let costs = (0..n_samples).map(|sample| as_cost(sample, known(sample), may_be_nothing));
            return Ok(Columns { lengths: vec![costs.collect::<Result<_, _>>()?], tasks: None });
        }
        let lengths = |sample, item: &I| match self {
            Self::Of(lengths, _) => guarded(sample, || lengths(item)),
            Self::One | Self::Column(_) => Ok([known(sample); MAX_AXES]),
        };
        let task_of = |sample, item: &I| task.map_or(Ok(0), |task| guarded(sample, || task(item)));
        let say = |sample, item: &I| {
            let mut checked = [0; MAX_AXES];
            for (checked, length) in checked.iter_mut().zip(lengths(sample, item)?) {
                *checked = as_cost(sample, length, may_be_nothing)?;
            }
            Ok((checked, task_of(sample, item)?))
        };
        let (lengths, tasks): (Vec<[u32; MAX_AXES]>, _) = read_all(dataset, &say, n_workers)?.into_iter().unzip();
        let lengths = (0..self.n_axes()).map(|axis| lengths.iter().map(|of| of[axis]).collect()).collect();
        Ok(Columns { lengths, tasks: task.is_some().then_some(tasks) })
    }
}

/// Reads every sample once, with several threads, and says something of each.
///
/// Of several samples that cannot be read, the error names the first.
fn read_all<I, T: Send>(
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
fn check_column(costs: &[usize], n_samples: usize) -> Result<(), BatchesError> {
    if costs.len() == n_samples { Ok(()) } else { Err(BatchesError::CostCount { n_costs: costs.len(), n_samples }) }
}

/// Returns a cost that a plan can hold, or 0 where a sample that costs nothing may be left out.
fn as_cost(sample: usize, cost: usize, may_be_nothing: bool) -> Result<u32, BatchesError> {
    let found = u32::try_from(cost).ok().filter(|it| 0 < *it || may_be_nothing);
    found.ok_or(BatchesError::Cost { sample, cost })
}
