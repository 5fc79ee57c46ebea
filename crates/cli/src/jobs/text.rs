//! Language modelling, as it is configured.

use std::sync::Arc;

use plimsoll_workloads::text::{Corpus, Text};

use super::padded::{About, extents, together};
use super::{also, held_out, padded, sources};
use crate::exit::{describe, user_error};
use crate::loading::Loading;
use crate::prepare::Prepared;
use crate::settings::Settings;

/// The tokenizer of a run, in its directory.
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";

pub(super) fn prepare(settings: &Settings, loading: Loading<'_>) -> anyhow::Result<Prepared<Text>> {
    let config = settings.corpus(loading.room(settings));
    let corpus = Arc::new(loading.read(|watch| Corpus::read_watched(&config, watch))?);
    let job = match settings.row_len(corpus.train.index(), "a lower `text.longest`, which cuts it,")? {
        Some(row_len) => Text::packed(settings.gpt(), Arc::clone(&corpus), row_len),
        None => Text::new(settings.gpt(), Arc::clone(&corpus)),
    };
    let n_test = corpus.test.as_ref().map_or(0, |it| it.sections.len());
    let held_out = held_out(corpus.validation.sections.len(), n_test);
    let vocabulary = corpus.tokenizer.vocabulary();
    let about = About {
        extents: extents(&job),
        validation_extents: Vec::new(),
        skips_held_out: false,
        lines: vec![format!(
            "{} sections to train on, {held_out}, {vocabulary} tokens{}{}{}",
            corpus.train.len(),
            together(&job),
            sources(&corpus.sources),
            also(&corpus.outside)
        )],
        skipped: corpus.skipped.clone(),
        files: vec![(TOKENIZER_FILE, corpus.tokenizer.to_json().map_err(|error| user_error(describe(&error)))?)],
    };
    Ok(padded::prepare(settings, loading, job, about)?)
}
