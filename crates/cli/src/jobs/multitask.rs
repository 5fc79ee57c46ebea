//! Several tasks on mixed samples, as it is configured.

use std::sync::Arc;

use plimsoll_train::Job;
use plimsoll_workloads::multitask::{Multitask, Samples};

use super::padded::{About, lengths};
use super::{SIGNATURE_FILE, padded};
use crate::loading::Loading;
use crate::prepare::Prepared;
use crate::settings::Settings;

pub(super) fn prepare(settings: &Settings, loading: Loading<'_>) -> anyhow::Result<Prepared<Multitask>> {
    let config = settings.samples(loading.room(settings));
    let samples = Arc::new(loading.read(|watch| Samples::read_watched(&config, watch))?);
    let job = Multitask::new(settings.multitask(), Arc::clone(&samples));
    let (n_train, n_held) = (samples.train.len(), samples.held_out.len());
    let tasks = job.tasks().join(", ");
    let about = About {
        lengths: lengths(&job),
        validation_edges: Vec::new(),
        skips_held_out: false,
        lines: vec![format!("{n_train} samples to train on, {n_held} held out; tasks: {tasks}")],
        skipped: samples.skipped.clone(),
        files: vec![(SIGNATURE_FILE, samples.signature().to_json())],
    };
    Ok(padded::prepare(settings, loading, job, about)?)
}
