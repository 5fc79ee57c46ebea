//! The settings of super-resolution.

use plimsoll_policy::{Bounds, Preset};
use plimsoll_types::Bytes;
use plimsoll_workloads::Room;
use plimsoll_workloads::sr::{BadImage, EdsrConfig, PhotosConfig, SrConfig};

use super::{Notes, Settings, SrSettings};
use crate::exit::{UserError, user_error};
use crate::values::BadSampleSetting;

impl Settings {
    /// Returns the bounds of the knobs on a device of this capacity, with what there is to say of them.
    ///
    /// `largest_patch` is what the smallest image allows.
    pub(crate) fn bounds(&self, capacity: Bytes, largest_patch: u32) -> Result<(Bounds, Notes), UserError> {
        let (preset, batch, effective) = (Preset::for_capacity(capacity), &self.batch, self.batch.effective_batch_size);
        let (default, multiple) = (preset.bounds(), batch.patch_multiple);
        self.check_batches(effective)?;
        let batch_max = batch.size_max.0.unwrap_or(default.batch_max.min(effective));
        let batch_min = batch.size_min.0.unwrap_or(default.batch_min.min(batch_max));
        let patch_min = self.smallest_patch(capacity);
        let patch_max = batch.patch_max.0.unwrap_or((default.patch_max / multiple * multiple).max(patch_min));
        ordered("batch.patch", patch_min, patch_max)?;
        ordered("batch.batch", batch_min, batch_max)?;
        let room = (largest_patch / multiple * multiple).max(patch_min);
        let mut warnings = Vec::new();
        if room < patch_max {
            warnings.push(format!("patches stop at {room}: the smallest image allows no more than {largest_patch}"));
        }
        let patch_max = patch_max.min(room);
        let bounds = Bounds { patch_min, patch_max, patch_multiple: multiple, batch_min, batch_max };
        bounds.validate().map_err(|error| user_error(format!("use the configuration: `batch`: {error}")))?;
        let chosen = format!("patch {patch_min} to {patch_max}, batch {batch_min} to {batch_max}");
        let suggested = preset.target();
        if !suggested.contains(&self.memory.target.get()) {
            let (low, high) = (suggested.start(), suggested.end());
            warnings.push(format!("the preset of a {} suggests a target of {low} to {high}", preset.name()));
        }
        let chosen = format!("{chosen}, effective {effective} (preset of a {})", preset.name());
        Ok((bounds, Notes { chosen, warnings }))
    }

    /// Returns the smallest patch that may be asked for, before the capacity is known.
    pub(crate) fn smallest_patch(&self, capacity: Bytes) -> u32 {
        let multiple = self.batch.patch_multiple;
        let preset = Preset::for_capacity(capacity).bounds().patch_min;
        self.batch.patch_min.0.unwrap_or(preset.next_multiple_of(multiple))
    }

    /// Returns how the images are to be read.
    pub(crate) fn photos(&self, smallest_patch: u32, room: Room) -> PhotosConfig {
        let folder = self.folder("sr");
        let bad_image = match self.data.bad_sample {
            BadSampleSetting::Fail => BadImage::Fail,
            BadSampleSetting::Skip => BadImage::Skip,
        };
        PhotosConfig { folder, validation_share: self.data.validation_share.get(), bad_image, smallest_patch, room }
    }

    /// Returns the size of the job.
    pub(crate) fn sr(&self) -> SrConfig {
        let SrSettings { channels, blocks, validation_tile, crops_per_image } = self.sr;
        let model = EdsrConfig { channels, blocks };
        SrConfig { model, crops_per_image, validation_tile, seed: self.seed }
    }
}

fn ordered(key: &str, min: u32, max: u32) -> Result<(), UserError> {
    if min <= max {
        return Ok(());
    }
    Err(user_error(format!("use the configuration: `{key}_min` is {min}, allowed is 1 to `{key}_max` ({max})")))
}
