//! Super-resolution, as it is configured.

use std::sync::Arc;

use plimsoll_workloads::sr::{Photos, Sr};

use super::data_error;
use crate::exit::UserError;
use crate::prepare::{Prepared, Sizes, open_device};
use crate::settings::Settings;

/// Names of images that the terminal shows before it says how many more there are.
const SHOWN_NAMES: usize = 8;

pub(super) fn prepare(settings: &Settings) -> Result<Prepared<Sr>, UserError> {
    let (probe, capacity) = open_device(settings)?;
    let of_presets = settings.begun_with.unwrap_or(capacity);
    let photos = Photos::read(&settings.photos(settings.smallest_patch(of_presets)));
    let photos = Arc::new(photos.map_err(|error| data_error(&error))?);
    let (bounds, notes) = settings.bounds(of_presets, photos.largest_patch())?;
    let (n_train, n_held) = (photos.train.len(), photos.validation.len());
    let names = names(photos.validation.iter().map(|it| it.name.as_str()));
    Ok(Prepared {
        probe,
        capacity,
        job: Sr::new(settings.sr(), Arc::clone(&photos)),
        loader: settings.loader(bounds.patch_max, Vec::new()),
        sizes: Sizes::Cut(bounds),
        largest_sample: photos.largest_patch(),
        inference_edges: vec![settings.sr.validation_tile.min(photos.largest_side())],
        notes,
        data: vec![format!("{n_train} images to train on, {n_held} held out: {names}")],
        skipped: photos.skipped.clone(),
        files: Vec::new(),
    })
}

fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    let n = all.len();
    let shown: Vec<_> = all.take(SHOWN_NAMES).collect();
    let more = if SHOWN_NAMES < n { format!(" and {} more", n - SHOWN_NAMES) } else { String::new() };
    shown.join(", ") + &more
}
