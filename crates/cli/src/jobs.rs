//! From a job's name to the job.

mod multitask;
mod padded;
mod sequence;
mod sr;
mod text;

use std::path::PathBuf;

use plimsoll_sampler::AdmitCounts;
use plimsoll_train::{Job, NamedSource, StopFlag, TrainError, compute_alone, replicas};
use plimsoll_workloads::outside_told;

pub(crate) use self::multitask::scarce;
pub(crate) use self::sr::narrow;
pub(crate) use self::text::TOKENIZER_FILE;
use crate::beat::Beat;
use crate::exit::{describe, user_error};
use crate::harness::Harness;
use crate::load::Loaded;
use crate::loading::{Loading, host_memory};
use crate::prepare::{Prepared, SHOWN_NAMES, some_of};
use crate::settings::Settings;
use crate::signals::AtOnce;
use crate::values::JobName;
use crate::{signals, worker};

/// What a run's model takes and gives, in its directory; a checkpoint says neither.
pub(crate) const SIGNATURE_FILE: &str = "signature.json";

/// What is done with a job, whichever it is.
pub(crate) trait WithJob {
    type Output;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<Self::Output>;
}

/// Prepares the configured job with its data, which leave nothing behind, and does something with it.
pub(crate) fn with_job<W: WithJob>(
    harness: &'static dyn Harness,
    loaded: &Loaded,
    then: W,
) -> anyhow::Result<W::Output> {
    let settings = &loaded.settings;
    worker::say_refusals();
    let store = StoreFolder::find()?;
    with_loaded(settings, store.loading(harness, settings)?, then)
}

/// The system's folder for temporary files, in which what is decoded leaves nothing; a signal ends the process at once.
pub(crate) struct StoreFolder {
    _at_once: AtOnce,
    stop: StopFlag,
    folder: PathBuf,
}

impl StoreFolder {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let (stop, at_once) = (StopFlag::default(), signals::at_once(|| ()));
        signals::watch(&stop)?;
        Ok(Self { _at_once: at_once, stop, folder: std::env::temp_dir() })
    }

    /// Begins to load data; what is decoded goes there.
    pub(crate) fn loading(&self, harness: &'static dyn Harness, settings: &Settings) -> anyhow::Result<Loading<'_>> {
        Loading::begin(harness, settings, (&self.folder, 1), self.stop.clone())
    }
}

/// Says how many samples are held out, and what for.
pub(crate) fn held_out(n_validation: usize, n_test: usize) -> String {
    format!("{n_validation} to validate on, {n_test} to test on")
}

/// Says how many samples there are to train on of each source, after another sentence, where there are several.
fn sources(sources: &[NamedSource]) -> String {
    let told = |it: &NamedSource| format!("{} {}", it.name, it.n_samples);
    let told = some_of(sources.iter().map(told), SHOWN_NAMES, "more");
    if sources.is_empty() { String::new() } else { format!("; sources: {told}") }
}

/// Says how many samples are not as they were for their lengths, after another sentence.
fn also(outside: &AdmitCounts) -> String {
    let told = outside_told(outside);
    if told.is_empty() { told } else { format!("; {told}") }
}

/// Prepares the configured job with its data, and does something with it.
pub(crate) fn with_loaded<W: WithJob>(settings: &Settings, loading: Loading<'_>, then: W) -> anyhow::Result<W::Output> {
    match settings.job {
        JobName::Sr => then.with(ready(settings, sr::prepare(settings, loading)?)?),
        JobName::Sequence => then.with(ready(settings, sequence::prepare(settings, loading)?)?),
        JobName::Multitask => then.with(ready(settings, multitask::prepare(settings, loading)?)?),
        JobName::Text => then.with(ready(settings, text::prepare(settings, loading)?)?),
    }
}

/// Draws the line, starts what runs parts of a step, and gives the samples that wait for a step the memory that they may hold.
///
/// From then on this thread computes alone: other cores have parts of their own. Reading the data has used them all.
fn ready<J: Job>(settings: &Settings, prepared: Prepared<J>) -> anyhow::Result<Prepared<J>> {
    let beat = Beat::start("preparing");
    compute_alone();
    if 1 < settings.replicas() {
        // What they keep is there before anything is sounded or planned.
        replicas(settings.replicas() as usize).map_err(|error| user_error(describe(&error)))?;
    }
    let mut prepared = below_line(prepared)?;
    let (source, loader) = (prepared.job.source(), &mut prepared.loader);
    let memory = host_memory(settings, prepared.capacity);
    let checked = match settings.data.buffer_limit.0 {
        Some(limit) => loader.check_limit(&*source).map(|()| limit),
        // The batches of a stream depend on how much of it is looked at.
        None if settings.train.deterministic => loader.least_limit(&*source, memory),
        None => loader.ample_limit(&*source, memory),
    };
    loader.buffer_limit = checked.map_err(TrainError::from)?;
    drop(beat);
    Ok(prepared)
}

/// Refuses from now on what the machine has no room for, where it would not refuse by itself.
///
/// Trials are certain to fit, but for the smallest: that one may pass a capacity that was set, but not the machine's.
fn below_line<J>(mut prepared: Prepared<J>) -> anyhow::Result<Prepared<J>> {
    prepared.probe.draw_line(None).map_err(TrainError::from)?;
    Ok(prepared)
}
