//! Values that no type and no range refuses.

use std::ops::RangeInclusive;

use plimsoll_policy::LARGEST;
use plimsoll_probe::DeviceKind;
use plimsoll_train::LoaderConfig;
use plimsoll_workloads::multitask::N_HEADS;

use super::Settings;
use crate::exit::{UserError, user_error};
use crate::values::{BatchSize, EffectiveUnit, JobName, Packing, Reduction};

/// More threads than any processor runs.
const MOST_REPLICAS: u32 = 512;

impl Settings {
    /// Refuses values that no type and no range refuses.
    pub(crate) fn check(&self) -> Result<(), UserError> {
        for (key, value) in self.batches() {
            in_range(key, value, &(1..=LARGEST))?;
        }
        self.check_devices()?;
        self.check_reduction()?;
        if let Some(n) = self.train.replicas.0 {
            in_range("train.replicas", n, &(1..=MOST_REPLICAS))?;
            if 1 < n && 1 < self.devices.n() {
                return refused(
                    "train.replicas",
                    n,
                    "1 or \"cores\" where `device` names several, each of which has one thread",
                );
            }
            if 1 < n && self.train.deterministic {
                return refused("train.replicas", n, "1 or \"cores\" where `train.deterministic` is true");
            }
        }
        self.check_models()?;
        self.check_data()?;
        if self.batch.effective_unit == EffectiveUnit::Tokens {
            let allowed = match self.job {
                JobName::Sr => "\"samples\" or \"batch\" for `sr`, whose samples have no lengths",
                JobName::Multitask => "\"samples\" or \"batch\" for `multitask`, whose samples are images and words",
                JobName::Sequence | JobName::Text => "",
            };
            if !allowed.is_empty() {
                return refused("batch.effective_unit", "\"tokens\"", allowed);
            }
        }
        self.check_packing()?;
        self.check_arrangement()?;
        let (target, band) = (self.policy.stepwise_target, self.policy.stepwise_dead_band);
        if target < band {
            return refused("policy.stepwise_dead_band", band, &format!("up to `policy.stepwise_target` ({target})"));
        }
        Ok(())
    }

    /// Only samples with one length that is known lie in a row together.
    fn check_packing(&self) -> Result<(), UserError> {
        if self.batch.pack != Packing::On {
            return Ok(());
        }
        let allowed = match self.job {
            JobName::Multitask => "false for `multitask`, whose samples have two lengths: several in a row have one",
            JobName::Sr | JobName::Sequence => "false for any job but `text`",
            JobName::Text => "",
        };
        if !allowed.is_empty() {
            return refused("batch.pack", true, allowed);
        }
        if self.tasks.homogeneous {
            let allowed = "false where `batch.pack` is true: a row has sections of any source";
            return refused("tasks.homogeneous", true, allowed);
        }
        Ok(())
    }

    /// Refuses a multiple that no micro-batch of the longest samples has room for.
    pub(super) fn check_room_for_multiple(&self, batch_max: u32, loader: &LoaderConfig) -> Result<(), UserError> {
        let (multiple, longest) = (self.batch.multiple_of, loader.largest_extent);
        let fixed = if let BatchSize::Fixed(n) = self.batch.size { n } else { u32::MAX };
        let most = loader.batch_of(longest).min(batch_max).min(fixed);
        if multiple <= most {
            return Ok(());
        }
        let allowed = format!("up to {most}, as many samples of length {longest} as a micro-batch may have");
        refused("batch.multiple_of", multiple, &allowed)
    }

    /// Each device has a capacity, or all have the same.
    fn check_devices(&self) -> Result<(), UserError> {
        let (Self { devices, memory, .. }, n) = (self, self.devices.n());
        let Some(sizes) = memory.capacity.n().filter(|it| *it != n) else { return Ok(()) };
        let devices = match n {
            1 => format!("one size, as `device` names one device ({devices})"),
            n => format!("one size for each of the {n} devices ({devices}), or one for all"),
        };
        refused("memory.capacity", format!("{sizes} sizes ({})", memory.capacity), &devices)
    }

    /// NCCL adds on NVIDIA devices; whether each rank has its own shows when the machines of all are known.
    fn check_reduction(&self) -> Result<(), UserError> {
        if self.train.reduction == Reduction::Host {
            return Ok(());
        }
        if let Some(it) = self.devices.iter().find(|it| !matches!(it, DeviceKind::Cuda(_))) {
            let allowed = format!("\"host\" where `device` names {it}: NCCL takes an NVIDIA device for each rank");
            return refused("train.reduction", "\"nccl\"", &allowed);
        }
        if !cfg!(feature = "nccl") {
            let allowed = "\"host\", as this build leaves NCCL out; \
                `cargo build --release -p plimsoll-cli --features cuda,nccl` builds it in";
            return refused("train.reduction", "\"nccl\"", allowed);
        }
        Ok(())
    }

    /// A policy takes no larger micro-batches; what a step takes is held to that where it counts samples too.
    fn batches(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let batch = &self.batch;
        let fixed = if let BatchSize::Fixed(n) = batch.size { Some(n) } else { None };
        let numbers = [
            ("batch.batch_size", fixed),
            ("batch.patch_min", batch.patch_min.0),
            ("batch.patch_max", batch.patch_max.0),
            ("batch.batch_min", batch.size_min.0),
            ("batch.batch_max", batch.size_max.0),
            ("batch.effective_batch_size", (!self.counts_positions()).then_some(batch.effective_batch_size)),
        ];
        numbers.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    /// Something is left to train on, only lists have columns, and only padded samples have lengths.
    fn check_data(&self) -> Result<(), UserError> {
        let (validation, test) = (self.data.validation_share.get(), self.data.test_share.get());
        if 1.0 <= validation + test {
            let allowed =
                format!("below 1 − `data.validation_share` ({validation}), so that something is left to train on");
            return refused("data.test_share", test, &allowed);
        }
        let columns = [
            ("data.group_column", &self.data.group_column),
            ("data.source_column", &self.data.source_column),
            ("data.weight_column", &self.data.weight_column),
        ];
        if let Some((key, column)) = columns.into_iter().find(|it| !it.1.is_empty() && self.job != JobName::Sequence) {
            let allowed = "\"\" but for `sequence`, whose `labels.csv` has columns";
            return refused(key, format!("\"{column}\""), allowed);
        }
        if self.data.source_folders && self.job != JobName::Text {
            return refused(
                "data.source_folders",
                true,
                "false for any job but `text`, whose documents lie in folders",
            );
        }
        if self.data.stream {
            match self.job {
                JobName::Sequence | JobName::Multitask => (),
                JobName::Sr => return refused("data.stream", true, "false for `sr`, whose samples have no lengths"),
                JobName::Text => {
                    let allowed = "false for `text`: a tokenizer is made of all documents before the first step, so that lengths \
                                   are known, and shares of sources (`data.source_folders`) and packed rows (`batch.pack`) are \
                                   planned without a stream";
                    return refused("data.stream", true, allowed);
                }
            }
        }
        self.check_together()?;
        self.check_weight_column()?;
        self.check_lengths()
    }

    /// Samples are drawn by their weights where all are known, one by one, and nothing else says how often.
    fn check_weight_column(&self) -> Result<(), UserError> {
        let column = &self.data.weight_column;
        let refused = |allowed: &str| refused("data.weight_column", format!("\"{column}\""), allowed);
        match self.asked_shares() {
            _ if column.is_empty() => Ok(()),
            _ if self.data.stream => refused("\"\" where `data.stream` is true: each sample of a stream comes once"),
            _ if self.keeps_together() => {
                refused("\"\" where `data.together` keeps groups whole, each of which comes once")
            }
            Some((key, ..)) => refused(&format!("\"\" where `tasks.{key}` says how often samples of a source come")),
            None => Ok(()),
        }
    }

    /// Some length is wanted, of samples that have one.
    fn check_lengths(&self) -> Result<(), UserError> {
        let (shortest, longest) = (self.data.shortest, self.longest());
        if longest < shortest {
            return refused("data.longest", longest, &format!("`data.shortest` ({shortest}) and above, or \"none\""));
        }
        let of_cut = "for `sr`, whose samples are cut from images of any size";
        match (self.job, shortest, self.data.longest.0) {
            (JobName::Sr, _, Some(longest)) => refused("data.longest", longest, &format!("\"none\" {of_cut}")),
            (JobName::Sr, 2.., _) => refused("data.shortest", shortest, &format!("1 {of_cut}")),
            _ => Ok(()),
        }
    }

    /// Each head of an attention has as many features, each piece of a section something new, and images that have places one size.
    fn check_models(&self) -> Result<(), UserError> {
        let (longest, overlap) = (self.text.longest, self.text.overlap);
        if longest <= overlap {
            return refused("text.overlap", overlap, &format!("below `text.longest` ({longest})"));
        }
        let (width, heads, features) = (self.text.width, self.text.heads, self.multitask.features);
        if !width.is_multiple_of(heads) {
            return refused("text.width", width, &format!("a multiple of `text.heads` ({heads})"));
        }
        if self.multitask.own_sizes && self.multitask.places {
            let allowed =
                "false where `multitask.places` is true: the places of images of different shapes are not the same";
            return refused("multitask.own_sizes", true, allowed);
        }
        if !features.is_multiple_of(N_HEADS) {
            return refused("multitask.features", features, &format!("a multiple of {N_HEADS}"));
        }
        Ok(())
    }
}

fn in_range(key: &str, value: u32, allowed: &RangeInclusive<u32>) -> Result<(), UserError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    refused(key, value, &format!("{} to {}", allowed.start(), allowed.end()))
}

pub(super) fn refused(key: &str, value: impl std::fmt::Display, allowed: &str) -> Result<(), UserError> {
    Err(user_error(format!("use the configuration: `{key}` is {value}, allowed is {allowed}")))
}
