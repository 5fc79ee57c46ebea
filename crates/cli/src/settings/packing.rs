//! Whether samples are packed.

use plimsoll_probe::DeviceKind;
use plimsoll_sampler::{PackConfig, PackPlanner, SampleIndex};
use plimsoll_types::Extent;

use super::Settings;
use crate::exit::{UserError, describe, user_error};
use crate::values::{BadSampleSetting, JobName, Packing};

impl Settings {
    /// Leaves open whether samples are packed only where they may be: parts of a run, each on its own device, decide alike.
    pub(crate) fn leave_packing_open(&mut self) {
        if self.batch.pack == Packing::Auto && !self.may_pack() {
            self.batch.pack = Packing::Off;
        }
    }

    /// Whether nothing is asked that only padded samples have, on devices where attention leaves the rest of a row alone.
    pub(crate) fn may_pack(&self) -> bool {
        let is_on_cpus = self.devices.iter().all(|it| it == DeviceKind::Flex);
        let is_of_samples = self.names_batch() || self.is_arranged() || self.tasks.homogeneous;
        let keeps_all = !self.keeps_together() && self.data.bad_sample == BadSampleSetting::Fail;
        self.job == JobName::Text && is_on_cpus && keeps_all && !is_of_samples
    }

    /// Returns how long packed rows are; none where samples are padded: where that is left open, rows have to be fuller.
    pub(crate) fn row_len(&self, index: &SampleIndex<1>, shorter: &str) -> Result<Option<u32>, UserError> {
        let [longest] = index.longest();
        let row_len = self.batch.row_len.0.unwrap_or(longest);
        match self.batch.pack {
            Packing::Off => Ok(None),
            _ if row_len < longest => Err(user_error(format!(
                "use the configuration: `batch.row_len` is {row_len}, allowed is from {longest} on, as long as the longest \
                 sample; {shorter} would help"
            ))),
            Packing::On => Ok(Some(row_len)),
            Packing::Auto => Ok(self.is_fuller(index, row_len)?.then_some(row_len)),
        }
    }

    /// Whether rows of this length are fuller than padded samples.
    fn is_fuller(&self, index: &SampleIndex<1>, row_len: u32) -> Result<bool, UserError> {
        let extents: Vec<_> = index.iter().map(|[length]| Extent::new(length)).collect();
        let window = self.batch.window.0.map(|n| n as usize);
        let rows = PackConfig { seed: self.seed, window, ..PackConfig::new(row_len) };
        let rows = PackPlanner::try_new(index.clone(), rows).map_err(|error| user_error(describe(&error)))?;
        Ok(rows.is_fuller_than(&self.cells(&extents)?.edges(0)))
    }
}
