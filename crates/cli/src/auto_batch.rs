//! The batch of a run that asks for the largest.

use plimsoll_finder::{FinderConfig, FinderError};
use plimsoll_plan::{FindError, PlanError};
use plimsoll_predict::Phase;
use plimsoll_train::{Job, MayRecompute};

use crate::args::FindObjective;
use crate::exit::user_error;
use crate::find;
use crate::load::Loaded;
use crate::prepare::Prepared;
use crate::values::{BatchSize, Checkpointing};

/// Replaces an "auto" batch by the one that is found.
pub(crate) fn find_batch<J: Job>(loaded: &mut Loaded, prepared: &Prepared<J>) -> anyhow::Result<()> {
    let settings = &loaded.settings;
    if settings.batch.size != BatchSize::Auto {
        return Ok(());
    }
    let (mut extent, mut tried) = (prepared.sizes.largest(), settings.clone());
    let ((batch_min, batch_max), target) = (prepared.sizes.batches(), settings.memory.target);
    let may_spare = settings.may_recompute() != MayRecompute::Nowhere;
    let found = loop {
        let finder = FinderConfig { extent, batch_min, batch_max, target, ..FinderConfig::default() };
        let error = match find::search(prepared, &tried, finder, Phase::Train, FindObjective::Largest) {
            Ok(found) => break found,
            Err(error) => error,
        };
        let is_sparing = tried.memory.recompute().is_on_anywhere();
        if may_spare && !is_sparing && is_too_much(&error) {
            // As the run will, where that is what it takes.
            tried.memory.gradient_checkpointing = Checkpointing::On;
            continue;
        }
        // What is longer is left out, as the run will say.
        let shorter =
            error.downcast_ref::<PlanError>().and_then(|it| prepared.next_cell(it, settings.train.deterministic));
        extent = shorter.filter(|shorter| *shorter < extent).ok_or_else(|| with_tried(error, is_sparing))?;
        tried = settings.clone();
    };
    let (batch, largest, need) = (found.batch(), found.found.largest, find::need(&found.found));
    eprintln!("batch       {batch} found: the largest that fits is {largest} ({need})");
    loaded.keep_batch_size(found.batch());
    Ok(())
}

/// Whether the smallest batch is too much, but may fit where activations are recomputed.
fn is_too_much(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(PlanError::may_fit_recomputing)
        || error.downcast_ref().is_some_and(is_too_much_to_find)
}

fn is_too_much_to_find(error: &FindError) -> bool {
    use FinderError::{DoesNotFit, OutOfMemory};
    matches!(error, FindError::Finder(DoesNotFit { .. } | OutOfMemory { .. }))
}

/// Adds to an error of a search that gradient checkpointing was tried; others say so themselves.
fn with_tried(error: anyhow::Error, is_sparing: bool) -> anyhow::Error {
    match error.downcast_ref() {
        Some(it) if is_sparing && is_too_much_to_find(it) => {
            user_error(format!("{it}; gradient checkpointing was tried")).into()
        }
        _ => error,
    }
}
