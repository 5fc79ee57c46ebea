//! Classification of sequences, as it is configured.

use std::sync::Arc;

use plimsoll_types::Extent;
use plimsoll_workloads::sequence::{Recordings, RecordingsConfig, SequenceJob};

use super::padded::{About, extents, together};
use super::{SIGNATURE_FILE, also, held_out, padded, sources};
use crate::loading::Loading;
use crate::prepare::Prepared;
use crate::settings::Settings;

pub(super) fn prepare(settings: &Settings, loading: Loading<'_>) -> anyhow::Result<Prepared<SequenceJob>> {
    let config = RecordingsConfig { store: Some(loading.room(settings).store), ..settings.recordings() };
    let recordings = Arc::new(loading.read(|watch| Recordings::read_watched(&config, watch))?);
    let (n_train, n_classes) = (recordings.train.len(), recordings.classes.len());
    let held_out = held_out(recordings.validation.len(), recordings.test.len());
    let job = SequenceJob::new(settings.sequence(), Arc::clone(&recordings));
    let about = About {
        extents: extents(&job),
        validation_extents: recordings.validation_edges().into_iter().map(Extent::new).collect(),
        skips_held_out: true,
        lines: vec![format!(
            "{n_train} recordings of {n_classes} classes to train on, {held_out}{}{}{}{}",
            grouped(&recordings),
            together(&job),
            sources(&recordings.sources),
            also(&recordings.outside)
        )],
        skipped: recordings.skipped.clone(),
        files: vec![(SIGNATURE_FILE, recordings.signature().to_json())],
    };
    Ok(padded::prepare(settings, loading, job, about)?)
}

/// Says by what the recordings are divided, where that is not one by one.
fn grouped(recordings: &Recordings) -> String {
    let column = recordings.group_column.as_ref();
    column.map_or_else(String::new, |it| format!(", no `{it}` in two of these"))
}
