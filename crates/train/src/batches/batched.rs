//! The batches of an epoch, as they fit.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::vec::IntoIter;

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use plimsoll_types::Extent;

use super::data::Start;
use super::place::{Place, lock};
use super::{Batches, BatchesError, Epoch, Limits, Position, StepItems};

/// What a loader's iterator is.
pub(super) enum Batched<'a, I, O> {
    Running(Box<Running<'a, I, O>>),
    /// Says why there are no batches of so many samples.
    Refused(BatchesError, usize),
    /// There are none of so many samples.
    Over {
        n_samples: usize,
    },
}

/// The batches that are left of an epoch.
pub(super) struct Running<'a, I, O> {
    batches: &'a Batches<I, O>,
    place: &'a Mutex<Place>,
    limits: &'a dyn Limits,
    device: &'a Device,
    epoch: Epoch<I>,
    rest: Option<Rest<I>>,
    /// Samples of the first step that are handed out already.
    skip: usize,
    n_handed_out: usize,
    is_over: bool,
}

/// What a step has left, those that cost most first.
struct Rest<I> {
    items: IntoIter<Waiting<I>>,
    n_taken: usize,
    before: Position,
    after: Position,
}

/// A sample of a step that is not handed out.
struct Waiting<I> {
    item: I,
    cost: u32,
    extent: Extent,
    /// In the dataset.
    index: usize,
}

impl<I> Rest<I> {
    fn new(step: StepItems<I>, before: Position, skip: usize) -> Self {
        let StepItems { items, costs, extents, indices, position: after, .. } = step;
        let all = items.into_iter().zip(costs.into_iter().zip(extents).zip(indices));
        let mut items: Vec<_> =
            all.map(|(item, ((cost, extent), index))| Waiting { item, cost, extent, index }).collect();
        items.sort_by_key(|it| Reverse(it.cost));
        let n_taken = skip.min(items.len());
        items.drain(..n_taken);
        Self { items: items.into_iter(), n_taken, before, after }
    }

    /// Where the next batch begins.
    fn position(&self) -> Position {
        if self.items.len() == 0 {
            return self.after.clone();
        }
        Position { n_taken: self.before.n_taken + self.n_taken, of_batch: self.n_taken, ..self.before.clone() }
    }
}

impl<'a, I: Send + 'static, O: 'static> Running<'a, I, O> {
    /// Begins to read.
    pub(super) fn new(
        batches: &'a Batches<I, O>,
        place: &'a Mutex<Place>,
        limits: &'a dyn Limits,
        device: &'a Device,
        start: Start,
    ) -> Self {
        let (skip, n_handed_out) = (start.position.of_batch, start.position.n_taken);
        let epoch = Epoch::new(&batches.data, start);
        Self { batches, place, limits, device, epoch, rest: None, skip, n_handed_out, is_over: false }
    }

    /// Returns what the next batch is made of; `None` at the end of the epoch.
    fn rest(&mut self) -> Result<Option<&mut Rest<I>>, BatchesError> {
        if self.rest.as_ref().is_none_or(|it| it.items.len() == 0) {
            let before = self.epoch.position().clone();
            let Some(step) = self.epoch.next() else { return Ok(None) };
            self.rest = Some(Rest::new(step?, before, std::mem::take(&mut self.skip)));
        }
        Ok(self.rest.as_mut())
    }

    fn batch(&mut self) -> Result<Option<O>, BatchesError> {
        let (limits, batches, device) = (self.limits, self.batches, self.device);
        let Some(rest) = self.rest()? else { return Ok(None) };
        let n = most(rest, limits, batches.data.multiple_of())?;
        let taken = rest.items.by_ref().take(n);
        let (items, indices): (Vec<_>, Vec<_>) = taken.map(|it| (it.item, it.index)).unzip();
        let made = batches.batch(items, device);
        let batch = made.map_err(|error| BatchesError::Batch { indices, error: Box::new(error) })?;
        rest.n_taken = rest.n_taken.saturating_add(n);
        let position = rest.position();
        self.n_handed_out += n;
        lock(self.place).position = position;
        Ok(Some(batch))
    }
}

/// Returns how many of the samples that are left make the next batch: a multiple, where so many fit.
fn most<I>(rest: &Rest<I>, limits: &dyn Limits, multiple: usize) -> Result<usize, BatchesError> {
    let n_left = rest.items.len();
    let Some(Waiting { cost, index, .. }) = rest.items.as_slice().first() else { return Ok(n_left) };
    match fitting(rest.items.as_slice(), limits) {
        0 => Err(BatchesError::NeverFits { sample: *index, cost: *cost }),
        most => {
            let equal = n_left.div_ceil(n_left.div_ceil(most));
            let whole = equal.next_multiple_of(multiple);
            let fits = if whole <= most { whole } else { most - most % multiple };
            Ok(if fits == 0 { equal } else { fits.min(n_left) })
        }
    }
}

/// Returns how many of these fit together, from the first on; those that cost most come first.
///
/// On several axes, a batch is padded to the longest on each of them, which need not be lengths of one sample.
fn fitting<I>(items: &[Waiting<I>], limits: &dyn Limits) -> usize {
    let Some(first) = items.first() else { return 0 };
    if first.extent.n_axes() == 1 {
        return limits.most(first.cost);
    }
    let mut padded = first.extent;
    let fits_with = |(n, it): (usize, &Waiting<I>)| {
        padded = padded.joined(it.extent);
        n < limits.most(u32::try_from(padded.positions()).unwrap_or(u32::MAX))
    };
    let n = items.iter().enumerate().map(fits_with).take_while(|fits| *fits).count();
    // Where all do, more of them might.
    if n == items.len() { usize::MAX } else { n }
}

impl<I: Send + 'static, O: 'static> Iterator for Batched<'_, I, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Running(running) if running.is_over => None,
            Self::Running(running) => {
                let batch = running.batch().map_err(DatasetError::new).transpose();
                running.is_over = !matches!(batch, Some(Ok(_)));
                batch
            }
            Self::Refused(_, n_samples) => {
                let over = Self::Over { n_samples: *n_samples };
                let Self::Refused(error, _) = std::mem::replace(self, over) else { return None };
                Some(Err(DatasetError::new(error)))
            }
            Self::Over { .. } => None,
        }
    }
}

impl<I: Send + 'static, O: 'static> DataLoaderIterator<O> for Batched<'_, I, O> {
    /// Counts the samples that are handed out.
    fn progress(&self) -> Progress {
        let (done, all) = match self {
            Self::Running(it) => (it.n_handed_out, it.batches.n_items()),
            Self::Refused(_, n_samples) | Self::Over { n_samples } => (0, *n_samples),
        };
        Progress::new(done, all, Some("items".to_owned()))
    }
}
