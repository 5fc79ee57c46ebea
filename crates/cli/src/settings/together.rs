//! Groups of samples that stay together: what is configured, held against the groups that there are.

use plimsoll_sampler::StepSize;
use plimsoll_train::{Lengths, LoaderConfig};
use plimsoll_workloads::text::Together;

use super::Settings;
use super::check::refused;
use crate::exit::UserError;
use crate::values::{JobName, Packing};

impl Settings {
    /// Whether groups of samples come in one step each.
    pub(super) fn keeps_together(&self) -> bool {
        !self.data.together.is_empty()
    }

    /// Groups stay together where lengths are known along one axis, whatever their tasks.
    pub(super) fn check_together(&self) -> Result<(), UserError> {
        let refused = |allowed: &str| refused("data.together", format!("\"{}\"", self.data.together), allowed);
        match self.job {
            _ if !self.keeps_together() => Ok(()),
            JobName::Sr => refused("\"\" for `sr`, whose samples are cut"),
            JobName::Multitask => refused("\"\" for `multitask`, whose samples have two lengths"),
            JobName::Text if Together::named(&self.data.together).is_none() => {
                refused("\"\", \"section\" or \"document\" for `text`")
            }
            JobName::Text if self.batch.pack == Packing::On => refused("\"\" where `batch.pack` is true"),
            JobName::Sequence if self.data.stream => {
                refused("\"\" where `data.stream` is true: lengths show only when samples are read, as they come")
            }
            _ if self.asked_shares().is_some() => {
                refused("\"\" where `tasks.shares`, `tasks.temperature` or `tasks.ends` say how sources are mixed")
            }
            _ if self.tasks.homogeneous => {
                refused("\"\" where `tasks.homogeneous` is true: a group may have samples of several sources")
            }
            JobName::Text | JobName::Sequence => Ok(()),
        }
    }

    /// Refuses groups that are larger than a step; says what the size of a step is where they do not divide it.
    pub(crate) fn together(
        &self,
        lengths: &Lengths,
        loader: &LoaderConfig,
        describe: impl Fn(u64) -> String,
    ) -> Result<String, UserError> {
        let Lengths::Grouped(groups) = lengths else { return Ok(String::new()) };
        let (size, n) = (loader.step_size(), u64::from(self.batch.effective_batch_size));
        if size == StepSize::Batch {
            return Ok(String::new());
        }
        let all = || (0..).take(groups.len()).map(|group| (groups.weight(size, group), group));
        let (most, largest) = all().max().unwrap_or((1, 0));
        if n < most {
            let (unit, first) = (self.counted(), groups.members(largest).first().map_or(0, |id| u64::from(*id)));
            let allowed = format!(
                "what has groups of up to `batch.effective_batch_size` ({n}) {unit}, and that of {} has {most}",
                describe(first)
            );
            refused("data.together", format!("\"{}\"", self.data.together), &allowed)?;
        }
        // Every end of a step is then that of a group, whatever their order.
        let is_exact = n % most == 0 && all().all(|it| it.0 == most);
        Ok(if is_exact { String::new() } else { format!(" on average, and less than {most} more or fewer") })
    }
}
