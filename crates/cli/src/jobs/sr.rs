//! Super-resolution, as it is configured.

use std::sync::Arc;

use plimsoll_types::{Bytes, Cells};
use plimsoll_workloads::sr::{Photos, PhotosConfig, Smallest, Sr};

use super::held_out;
use crate::exit::UserError;
use crate::loading::Loading;
use crate::prepare::{Prepared, SHOWN_NAMES, some_of};
use crate::settings::{Mixed, Settings};
use crate::sizes::Sizes;

pub(super) fn prepare(settings: &Settings, loading: Loading<'_>) -> anyhow::Result<Prepared<Sr>> {
    let capacity = loading.capacity;
    let of_presets = settings.capacity_of_presets(capacity);
    let config = settings.photos(settings.smallest_patch(of_presets), loading.room(settings));
    let photos = Arc::new(loading.read(|watch| Photos::read_watched(&config, watch))?);
    let (bounds, mut notes) = settings.bounds(of_presets, photos.largest_patch())?;
    if let Some(smallest) = photos.smallest() {
        notes.warnings.extend(narrow(settings, of_presets, &smallest)?);
    }
    notes.warnings.extend(waiting(&photos, &config));
    let job = Sr::new(settings.sr(), Arc::clone(&photos));
    let mut loader = settings.loader(bounds.patch_max.into(), Cells::default());
    settings.mix(&Mixed::of(&job), &mut loader.tasks)?;
    let held_out = held_out(photos.validation.len(), photos.test.len());
    let names: Vec<_> = photos.validation.iter().chain(&photos.test).map(|it| it.name.clone()).collect();
    let names = some_of(names.into_iter(), SHOWN_NAMES, "more");
    Ok(Prepared {
        harness: loading.harness,
        loaded: loading.taken(),
        job: loading.watched(job),
        probe: loading.probe,
        capacity,
        loader,
        sizes: Sizes::Cut(bounds),
        largest_sample: photos.largest_patch().into(),
        extents: Vec::new(),
        skips_held_out: false,
        inference_extents: vec![settings.sr.validation_tile.min(photos.largest_side()).into()],
        notes,
        data: vec![format!("{} images to train on, {held_out}: {names}", photos.train.len())],
        skipped: photos.skipped.clone(),
        files: Vec::new(),
    })
}

/// Says which image keeps patches from being as large as they could be, where one does, and how to leave it out.
pub(crate) fn narrow(settings: &Settings, of_presets: Bytes, smallest: &Smallest) -> Result<Option<String>, UserError> {
    let largest = |patch| settings.bounds(of_presets, patch).map(|(bounds, _)| bounds);
    let (bounds, wanted) = (largest(smallest.largest_patch())?, largest(u32::MAX)?.patch_max);
    let (room, Smallest { name, width, height }) = (bounds.patch_max, smallest);
    Ok((room < wanted).then(|| {
        format!(
            "patches stop at {room} instead of {wanted}: {name} has {width} × {height} pixels, the smallest side of all \
             images to train on; remove it, or leave images like it out with `--set batch.patch_min={}` and \
             `--set data.bad_sample=skip`",
            room + bounds.patch_multiple
        )
    }))
}

/// Says what it means that not all images have room in the store.
fn waiting(photos: &Photos, config: &PhotosConfig) -> Option<String> {
    let ((n, stored), limit) = (photos.waiting()?, config.room.store.limit);
    Some(format!(
        "decoded images take {stored}, and `data.store_limit` is {limit}: {n} of them are decoded whenever a crop needs \
         them, which is slow"
    ))
}
