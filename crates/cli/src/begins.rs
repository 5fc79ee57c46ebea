//! What a run begins with: its settings, and a plan where it has one.

use std::path::Path;

use anyhow::Context;
use plimsoll_plan::{Fit, MemoryPlan, PLAN_FILE, PlannedCell};
use plimsoll_policy::{FixedConfig, PolicyConfig};
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{FitConfig, Job, MayRecompute, fingerprint, tune_ahead};
use plimsoll_types::{Extent, Knobs, StepShape};

use crate::device::{device_name, open_probe};
use crate::exit::{describe, user_error};
use crate::prepare::Prepared;
use crate::settings::Settings;
use crate::signals;
use crate::sizes::{Buckets, Sizes};
use crate::soundings::{fits_nowhere, plan_and_say};
use crate::values::PlanSetting;

impl<J: Job> Prepared<J> {
    /// Returns what a rank begins with: its settings, and the plan that it has written, where it has one.
    pub(crate) fn begins_with(
        &mut self,
        settings: &Settings,
        goes_on: bool,
        dir: &Path,
    ) -> anyhow::Result<(FitConfig, Option<MemoryPlan>)> {
        let name = device_name(self.harness, settings)?;
        let mut config = settings.fit(&self.sizes, self.loader.clone(), &name)?;
        let plan = if goes_on {
            tune_ahead(&self.job, &self.plan_request(settings)?)?;
            None
        } else {
            self.plan(settings)?
        };
        match &plan {
            Some(plan) => {
                begin_with(&mut config, plan, &self.sizes);
                config.too_large.validation = self.checked(plan, config.deterministic)?;
                self.name_left_out(&config.too_large);
                signals::uncut(|| plan.write(&dir.join(PLAN_FILE)))?;
            }
            None => self.sound(settings, &mut config, goes_on)?,
        }
        Ok((config, plan))
    }

    /// Reads or makes the plan that the run begins with.
    fn plan(&self, settings: &Settings) -> anyhow::Result<Option<MemoryPlan>> {
        let (request, open) = (self.plan_request(settings)?, || open_probe(self.harness, settings));
        let may_recompute = settings.may_recompute();
        match &settings.memory.plan {
            PlanSetting::Off if settings.takes_sizes_from_plan() => {
                let wanted = "give `batch.batch_size` a number, or let `memory.plan` be \"auto\" or a file";
                Err(user_error(format!("choose micro-batches without readings and without a plan: {wanted}")).into())
            }
            PlanSetting::Off => Ok(None),
            PlanSetting::File(file) => {
                let name = device_name(self.harness, settings)?;
                let may_differ = may_recompute != MayRecompute::Nowhere;
                let plan = MemoryPlan::read(file, &fingerprint(&self.job, &request, &name), may_differ);
                let plan = plan.context("use what `memory.plan` names")?;
                if tune_ahead(&self.job, &request)? == 0 {
                    return Ok(Some(plan.under(self.capacity, settings.memory.target)));
                }
                let why = "it was made with kernels that are not the ones that were tuned now";
                eprintln!("warning: {} is not used, and another plan is made: {why}", file.display());
                Ok(Some(plan_and_say(&self.job, &request, may_recompute, &open)?))
            }
            // The first steps of a run on a CPU are what a plan would run anyway.
            PlanSetting::Auto if settings.device() == DeviceKind::Flex && !settings.takes_sizes_from_plan() => Ok(None),
            PlanSetting::Auto => match plan_and_say(&self.job, &request, may_recompute, &open) {
                Ok(plan) => Ok(Some(plan)),
                Err(error) if fits_nowhere(&error) || settings.takes_sizes_from_plan() => Err(error.into()),
                Err(error) => {
                    eprintln!("warning: no plan, the steps will tell: failed to {}", describe(&error));
                    Ok(None)
                }
            },
        }
    }
}

/// Gives a run what the plan knows; where pages were planned, it begins at the highest rung that is certain to fit, as
/// the plan assumes: its allocations fix the size of pages.
///
/// Elsewhere it begins at the lowest as ever: the first step of a process also makes thread pools and work space.
fn begin_with(config: &mut FitConfig, plan: &MemoryPlan, sizes: &Sizes) {
    config.controller.planned = plan.needs();
    config.controller.recompute = config.controller.recompute.or(plan.fingerprint.recompute);
    if let PolicyConfig::Fixed(policy) = &mut config.controller.policy {
        pin(policy, plan, sizes);
    }
    let needs = config.controller.planned.iter().filter(|it| it.phase == Phase::Train && it.resident.is_none());
    let first = plan.first(Phase::Train).map(PlannedCell::shape);
    if let PolicyConfig::Certified(policy) = &mut config.controller.policy {
        let fits = |shape: &StepShape| needs.clone().any(|it| it.shape == *shape);
        policy.start = first.filter(fits).map(|it| Knobs { patch_size: it.edge(), micro_batch_size: it.samples });
    }
}

/// Gives a policy that never moves the largest micro-batches that the plan is certain of, where it is to have them.
fn pin(policy: &mut FixedConfig, plan: &MemoryPlan, sizes: &Sizes) {
    let Some(first) = plan.first(Phase::Train).filter(|_| policy.from_plan).map(PlannedCell::shape) else { return };
    match sizes {
        Sizes::Cut(_) => policy.knobs = Knobs { patch_size: first.edge(), micro_batch_size: first.samples },
        Sizes::Padded(Buckets { cells, batch_max }) => {
            let fitting = || plan.of(Phase::Train).filter(|it| it.fit == Fit::Fits);
            // A batch of a cell that was not planned is held against one that covers it.
            let most = |cell: &Extent| fitting().filter(|it| it.extent.covers(*cell)).map(|it| it.batch).max();
            policy.batch_sizes = cells.iter().map(|cell| most(cell).unwrap_or(1).min(*batch_max)).collect();
            policy.knobs.micro_batch_size = policy.batch_sizes.last().copied().unwrap_or(1);
        }
    }
}
