//! The settings of super-resolution.

use plimsoll_policy::{Bounds, PolicyError, Preset};
use plimsoll_probe::DeviceKind;
use plimsoll_types::Bytes;
use plimsoll_workloads::Room;
use plimsoll_workloads::sr::{BadImage, EdsrConfig, PhotosConfig, SrConfig};

use super::{Notes, Settings, SrSettings};
use crate::exit::{UserError, user_error};
use crate::values::{BadSampleSetting, Capacity};

/// The presets of a small device are for less than 8 GiB.
const LARGEST_SMALL: Bytes = Bytes::mib((8 << 10) - 1);

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
        let patch_max = patch_max.min(room);
        let bounds = Bounds { patch_min, patch_max, patch_multiple: multiple, batch_min, batch_max };
        bounds.validate().map_err(|error| refused(&error))?;
        let chosen = format!("patch {patch_min} to {patch_max}, batch {batch_min} to {batch_max}");
        let suggested = preset.target();
        if !suggested.contains(&self.memory.target.get()) {
            let (low, high) = (suggested.start(), suggested.end());
            warnings.push(format!("the preset of a {} suggests a target of {low} to {high}", preset.name()));
        }
        let chosen = format!("{chosen}, effective {effective} (preset of a {})", preset.name());
        Ok((bounds, Notes { chosen, warnings }))
    }

    /// Returns the capacity whose presets a run begins with: on a CPU no more than a small device's unless somebody asks for
    /// it, since larger patches take a CPU minutes for a step. One that goes on has bounds as numbers.
    pub(crate) fn capacity_of_presets(&self, capacity: Bytes) -> Bytes {
        let is_slow = self.device() == DeviceKind::Flex && self.memory.capacity.at(0) == Capacity::Auto;
        if is_slow { capacity.min(LARGEST_SMALL) } else { capacity }
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
        PhotosConfig { folder, shares: self.shares(), bad_image, smallest_patch, room }
    }

    /// Returns the size of the job.
    pub(crate) fn sr(&self) -> SrConfig {
        let SrSettings { channels, blocks, validation_tile, crops_per_image } = self.sr;
        let model = EdsrConfig { channels, blocks };
        SrConfig { model, crops_per_image, validation_tile, seed: self.seed }
    }
}

/// Names the key of bounds that a policy does not take.
fn refused(error: &PolicyError) -> UserError {
    let PolicyError::OutOfRange { key, value, allowed } = error else {
        return user_error(format!("use the configuration: `batch`: {error}"));
    };
    let allowed = allowed.replace("patch_multiple", "`batch.patch_multiple`");
    user_error(format!("use the configuration: `batch.{key}` is {value}, allowed is {allowed}"))
}

fn ordered(key: &str, min: u32, max: u32) -> Result<(), UserError> {
    if min <= max {
        return Ok(());
    }
    Err(user_error(format!("use the configuration: `{key}_min` is {min}, allowed is 1 to `{key}_max` ({max})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Layers;

    fn settings(sets: &[&str]) -> Settings {
        let sets = sets.iter().map(ToString::to_string).collect();
        Layers { sets, ..Layers::default() }.load().unwrap().settings
    }

    #[test]
    fn an_automatic_capacity_is_the_demonstrations_on_a_cpu_and_the_devices_elsewhere() {
        let capacity = |sets: &[&str]| settings(sets).capacity();
        for (job, mib) in [("sr", 40), ("multitask", 40), ("sequence", 24), ("text", 160)] {
            let job = format!("job={job}");
            assert_eq!(capacity(&[&job]), Some(Bytes::mib(mib)), "{job}");
            assert_eq!(capacity(&[&job, "device=cuda:0"]), None, "{job}");
            assert_eq!(capacity(&[&job, "data.folder=/mine"]), None, "{job}");
            assert_eq!(capacity(&[&job, "memory.capacity=device"]), None, "{job}");
            assert_eq!(capacity(&[&job, "data.folder=/mine", "memory.capacity=1 GiB"]), Some(Bytes::gib(1)), "{job}");
        }
    }

    #[test]
    fn a_cpu_has_the_presets_of_a_small_device_unless_its_capacity_is_asked_for() {
        let preset = |sets: &[&str]| Preset::for_capacity(settings(sets).capacity_of_presets(Bytes::gib(64)));
        assert_eq!(preset(&["data.folder=/mine"]), Preset::Small);
        assert_eq!(preset(&["data.folder=/mine", "memory.capacity=device"]), Preset::Card24);
        assert_eq!(preset(&["data.folder=/mine", "device=cuda"]), Preset::Card24);
    }
}
