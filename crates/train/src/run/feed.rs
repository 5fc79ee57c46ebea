//! What steps are filled with: the loader, and what is left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_monitor::MatesKept;
use plimsoll_sampler::StreamStats;
use plimsoll_types::{Bytes, EpochDone, Extent, SupplyStep};

use super::journal::Journal;
use super::room::RoomForMultiple;
use super::shares::Agreed;
use super::unfit::{Unfit, named_of};
use crate::config::FitConfig;
use crate::loader::{
    BadSample, EndedEpoch, Loader, LoaderConfig, LoaderError, LoaderPosition, StepSamples, Wanted, planned_padding,
};
use crate::source::{Lengths, Source};
use crate::stopwatch::Lap;
use crate::too_large::TooLarge;

/// The loader of a run, and which samples it leaves out because they do not fit.
pub(super) struct Feed<S: Source> {
    source: Arc<S>,
    loader: Loader<S>,
    config: LoaderConfig,
    is_deterministic: bool,
    keeps_groups: bool,
    /// From which extents on samples were known to be too large before the run.
    known: Vec<Extent>,
    unfit: Option<Unfit>,
    /// Of several ranks, from which extents on one of them does not hold a sample, as they have agreed.
    agreed: Option<Vec<Extent>>,
    /// Samples that the epoch has trained on so far.
    epoch_samples: u64,
    room: RoomForMultiple,
    /// How long the loader had waited when the last step was done.
    waited: Duration,
    /// The samples of the step under way.
    under_way: Vec<u64>,
}

type Samples<S> = StepSamples<<S as Source>::Buffer>;

impl<S: Source> Feed<S> {
    /// Allocates all buffers.
    pub(super) fn try_new(
        source: Arc<S>,
        config: &FitConfig,
        wanted: &Wanted,
        buffer_limit: Bytes,
    ) -> Result<Self, LoaderError> {
        let loader = LoaderConfig { buffer_limit, ..config.loader.clone() };
        let keeps_groups = matches!(source.lengths(), Lengths::Grouped(_));
        Ok(Self {
            loader: Loader::try_new(&source, None, wanted, &loader)?,
            source,
            config: loader,
            is_deterministic: config.deterministic,
            keeps_groups,
            known: config.too_large.train.clone(),
            unfit: None,
            agreed: None,
            room: RoomForMultiple::new(config),
            epoch_samples: 0,
            waited: Duration::ZERO,
            under_way: Vec::new(),
        })
    }

    /// Whether samples are to lie in one micro-batch.
    pub(super) fn keeps_groups(&self) -> bool {
        self.keeps_groups
    }

    /// Returns the part of the positions that the cells make padding, where it is known.
    pub(super) fn planned_padding(&self) -> Option<f64> {
        planned_padding(&*self.source, &self.config, &TooLarge::from(self.known.clone(), &self.config.cells))
    }

    /// Leaves out what is known to be too large for this budget.
    pub(super) fn leave_out_known(&mut self, budget: Bytes) {
        self.unfit = Unfit::from(&self.known, budget);
    }

    /// Goes on at the place that a checkpoint says.
    pub(super) fn load(
        &mut self,
        position: LoaderPosition,
        wanted: &Wanted,
        epoch_samples: u64,
        unfit: Option<Unfit>,
    ) -> Result<(), LoaderError> {
        self.unfit = Unfit::stricter(unfit, self.unfit.take());
        (self.epoch_samples, self.waited) = (epoch_samples, Duration::ZERO);
        self.loader = Loader::try_new(&self.source, Some(position), wanted, &self.config)?;
        Ok(())
    }

    /// Reads from here on of each step what this rank runs.
    pub(super) fn share(&mut self, agreed: &Agreed) -> Result<(), LoaderError> {
        self.loader.share(&agreed.limits, &agreed.speeds)
    }

    /// Returns the samples of the next step, without those that are known not to fit.
    pub(super) fn next(
        &mut self,
        wanted: &Wanted,
        budget: Bytes,
        journal: &mut Journal<'_>,
    ) -> Result<Samples<S>, LoaderError> {
        if let Some(lost) = self.room.follow(&self.config.cells, wanted) {
            journal.warn(&lost);
        }
        let too_large = self.too_large(budget);
        let samples =
            booked(&mut self.loader, journal, |it| it.leave_out_too_large(too_large).and_then(|()| it.next(wanted)));
        Ok(self.begun(samples?))
    }

    fn begun(&mut self, samples: Samples<S>) -> Samples<S> {
        self.under_way.clear();
        self.under_way.extend(samples.draw.first_of_rows());
        samples
    }

    /// Gives the buffer of a step back that is done.
    pub(super) fn recycle(&mut self, samples: Samples<S>, journal: &mut Journal<'_>) -> Result<(), LoaderError> {
        booked(&mut self.loader, journal, |loader| loader.recycle(samples))
    }

    /// Whether samples that are padded to this may be left out: only where there are smaller ones, and where what is drawn may
    /// depend on memory.
    pub(super) fn may_leave_out(&self, extent: Extent) -> bool {
        let has_smaller = self.config.cells.iter().any(|it| !it.covers(extent));
        !self.is_deterministic && self.config.bad_sample != BadSample::Fail && has_smaller
    }

    /// Whether the settings could be such that they are.
    pub(super) fn could_leave_out(&self) -> bool {
        1 < self.config.cells.len() && self.config.bad_sample == BadSample::Fail
    }

    /// Remembers that one sample alone of this extent does not fit into a budget.
    pub(super) fn note_unfit(&mut self, extent: Extent, budget: Bytes) {
        self.unfit = Unfit::stricter(self.unfit.take(), Some(Unfit::of(extent, budget)));
    }

    /// Goes by what every rank holds.
    pub(super) fn agree_on(&mut self, too_large: Vec<Extent>) {
        self.agreed = Some(too_large);
    }

    /// Leaves out what a rank does not hold, too.
    pub(super) fn agree_on_also(&mut self, extent: Extent) {
        self.agreed.get_or_insert_default().push(extent);
    }

    /// Leaves out what does not fit; returns the samples of the step without it.
    ///
    /// Smaller samples that were padded with those that are left out stay, and are padded to less.
    pub(super) fn leave_out(
        &mut self,
        samples: Samples<S>,
        (wanted, budget): (&Wanted, Bytes),
        journal: &mut Journal<'_>,
    ) -> Result<Samples<S>, LoaderError> {
        self.loader.leave_out_too_large(self.too_large(budget))?;
        let samples = self.loader.without_too_large(samples)?;
        if !samples.draw.parts.is_empty() {
            return Ok(self.begun(samples));
        }
        self.loader.leave_out(samples)?;
        self.next(wanted, budget, journal)
    }

    /// Says what a run that goes on leaves out because it did not fit before, unless whoever began it knows; with much more
    /// memory than then, nothing is.
    pub(super) fn left_out(&self, budget: Bytes) -> Option<String> {
        let too_large = self.too_large(budget);
        if too_large.is_within(&self.known) { None } else { named_of(&*self.source, &too_large) }
    }

    /// Returns which samples are left out.
    fn too_large(&self, budget: Bytes) -> TooLarge {
        self.agreed.as_ref().map_or_else(|| self.own(budget), |all| TooLarge::from(all.clone(), &self.config.cells))
    }

    /// The same of what this rank alone does not hold.
    fn own(&self, budget: Bytes) -> TooLarge {
        let extents = self.unfit.as_ref().map_or_else(Vec::new, |it| it.extents(budget));
        TooLarge::from(extents, &self.config.cells)
    }

    /// Says of each cell whether this rank does not hold a sample of it.
    pub(super) fn own_too_large(&self, budget: Bytes) -> Vec<bool> {
        let own = self.own(budget);
        self.config.cells.iter().map(|it| own.has_cell(*it)).collect()
    }

    /// Counts the samples of a step that is done.
    pub(super) fn count(&mut self, n_samples: u64) {
        self.epoch_samples += n_samples;
    }

    /// Ends an epoch whose last sample was in this step, or before it.
    pub(super) fn end_epoch(&mut self, EndedEpoch { epoch, dropped }: EndedEpoch, step: u64) -> EpochDone {
        EpochDone { epoch, step, samples: std::mem::take(&mut self.epoch_samples), dropped }
    }

    /// Returns the samples of the step under way.
    pub(super) fn under_way(&self) -> &[u64] {
        &self.under_way
    }

    pub(super) fn position(&self) -> &LoaderPosition {
        self.loader.position()
    }

    pub(super) fn epoch_samples(&self) -> u64 {
        self.epoch_samples
    }

    pub(super) fn unfit(&self) -> Option<Unfit> {
        self.unfit.clone()
    }

    /// Measures how well an epoch mixes with the next, where that is known.
    pub(super) fn mates_kept(&self) -> Option<MatesKept> {
        self.loader.mates_kept()
    }

    /// Returns how far ahead the samples of a step that is done were read, where they are streamed.
    pub(super) fn supply(&mut self) -> Option<SupplyStep> {
        let waited = self.loader.waited();
        let before = std::mem::replace(&mut self.waited, waited);
        self.loader.supply(waited.saturating_sub(before))
    }

    /// Returns how the look-ahead buffer did, where the samples are streamed.
    pub(super) fn stream_stats(&self) -> Option<StreamStats> {
        self.loader.stream_stats()
    }
}

/// Works with the loader, and books apart what it waits for others.
fn booked<S: Source, T>(
    loader: &mut Loader<S>,
    journal: &mut Journal<'_>,
    work: impl FnOnce(&mut Loader<S>) -> Result<T, LoaderError>,
) -> Result<T, LoaderError> {
    let (begun, before) = (Instant::now(), loader.waited());
    let done = Lap::Sampler.span().in_scope(|| work(loader));
    let (all, waiting) = (begun.elapsed(), loader.waited().saturating_sub(before));
    journal.book(Lap::Sampler, all.saturating_sub(waiting));
    journal.book(Lap::Waiting, waiting);
    done
}
