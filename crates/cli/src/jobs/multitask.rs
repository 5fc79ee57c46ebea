//! Several tasks on mixed samples, as it is configured.

use std::sync::Arc;

use plimsoll_train::Job;
use plimsoll_workloads::multitask::{ENOUGH_IMAGES, Multitask, Samples, Scarce};

use super::padded::{About, extents};
use super::{SIGNATURE_FILE, also, held_out, padded};
use crate::loading::Loading;
use crate::prepare::Prepared;
use crate::settings::Settings;

pub(super) fn prepare(settings: &Settings, loading: Loading<'_>) -> anyhow::Result<Prepared<Multitask>> {
    let config = settings.samples(loading.room(settings));
    let samples = Arc::new(loading.read(|watch| Samples::read_watched(&config, watch))?);
    let job = Multitask::new(settings.multitask(), Arc::clone(&samples));
    let held_out = held_out(samples.validation.len(), samples.test.len());
    let tasks = job.tasks().join(", ");
    let about = About {
        extents: extents(&job),
        validation_extents: samples.held_out_extents(),
        skips_held_out: false,
        lines: vec![format!(
            "{} samples to train on, {held_out}; tasks: {tasks}{}",
            samples.train.len(),
            also(&samples.outside)
        )],
        skipped: samples.skipped.clone(),
        files: vec![(SIGNATURE_FILE, samples.signature().to_json())],
    };
    let mut prepared = padded::prepare(settings, loading, job, about)?;
    prepared.notes.warnings.extend(samples.scarce().iter().map(scarce));
    Ok(prepared)
}

/// Says what it means that there are few images of a subject.
pub(crate) fn scarce(Scarce { subject, n_images, n_subjects }: &Scarce) -> String {
    let others = if *n_subjects > 1 { format!(", and too few of {} more", n_subjects - 1) } else { String::new() };
    format!(
        "{n_images} image{} of \"{subject}\" to train on{others}: with fewer than {ENOUGH_IMAGES} photographs of a subject \
         a model ends little better than guessing on others of it; more images, or smaller shares that are held out, \
         would help",
        if *n_images == 1 { "" } else { "s" }
    )
}
