//! How a run makes sure of what it begins with, and what it leaves out.

use plimsoll_plan::{Compared, MemoryPlan, OpenProbe, PlanError};
use plimsoll_policy::{Policy, PolicyConfig};
use plimsoll_predict::Phase;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{
    BadSample, FitConfig, Job, KnownTooLarge, MayRecompute, PlanRequest, Sounded, Source, plan_recomputing, sound,
};
use plimsoll_types::{Extent, Recompute, StepShape};

use crate::device::open_probe;
use crate::display::progress_of_planning;
use crate::exit::describe;
use crate::prepare::{Prepared, SHOWN_NAMES};
use crate::settings::Settings;
use crate::sizes::{Buckets, Sizes};
use crate::values::PlanSetting;

impl<J: Job> Prepared<J> {
    /// Makes sure that what the run begins with is known to fit, where no plan says so; a run that goes on knows it, but
    /// not what its new process, or another capacity, makes of it.
    ///
    /// What is out of reach alone is left out, where that is allowed, once activations are recomputed.
    pub(crate) fn sound(&mut self, settings: &Settings, config: &mut FitConfig, goes_on: bool) -> anyhow::Result<()> {
        let mut request = self.plan_request(settings)?;
        let harness = self.harness;
        let open = || open_probe(harness, settings);
        if settings.device() != DeviceKind::Flex {
            if goes_on || settings.memory.plan != PlanSetting::Off {
                return Ok(());
            }
            let may_skip = matches!(self.sizes, Sizes::Padded(_)) && self.may_leave_out(config.deterministic);
            let may_recompute = settings.may_recompute().min(MayRecompute::WhereNeeded);
            match rehearse(&self.job, request, self.sizes.largest(), may_recompute, &open) {
                Ok(recompute) => config.controller.recompute = recompute,
                // Such a device refuses by itself what is too large, and lives.
                Err(error) if may_skip => eprintln!("warning: failed to {error}: what does not fit is left out"),
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        let mut on_trial = progress_of_planning(request.device);
        let sounded = loop {
            let largest = self.largest_first(&config.controller.policy, &config.too_large.train)?;
            let error = match sound(&self.job, &request, (&largest, config.may_checkpoint), &open, &mut on_trial) {
                Ok(sounded) => break sounded,
                Err(error) => error,
            };
            if let Some(too_large) = self.without(&error, config) {
                config.too_large = too_large;
                if let Some(edge) = config.too_large.validation {
                    request.inference.retain(|it| it.edge() <= edge);
                    request.inference.push(StepShape::new(1, edge));
                }
            } else if fits_nowhere(&error) {
                return Err(self.naming(error).into());
            } else {
                eprintln!("warning: no sounding, the steps will tell: failed to {}", describe(&error));
                return Ok(());
            }
        };
        self.name_left_out(&config.too_large);
        let Sounded { needs, recompute } = sounded;
        say_recomputed(recompute, &request);
        if !goes_on {
            config.controller.recompute = recompute;
            // A deterministic run takes nothing from readings.
            config.controller.planned = if config.deterministic { Vec::new() } else { needs };
        }
        Ok(())
    }

    /// Returns the largest micro-batches that the first steps may have of what is not too large: those that no other one covers.
    fn largest_first(&self, policy: &PolicyConfig, too_large: &[Extent]) -> anyhow::Result<Vec<StepShape>> {
        let policy = Policy::try_new(policy.clone())?;
        let knobs = policy.knobs();
        let Sizes::Padded(Buckets { cells, .. }) = &self.sizes else { return Ok(vec![knobs.shape()]) };
        let left = cells.iter().copied().filter(|it| !it.covers_any(too_large));
        let own = |sizes: &[u32], cell: Extent| cells.iter().zip(sizes).find(|it| *it.0 == cell).map(|it| *it.1);
        let size = |cell| policy.batch_sizes().and_then(|sizes| own(sizes, cell)).unwrap_or(knobs.micro_batch_size);
        Ok(Extent::outermost(left).into_iter().map(|cell| StepShape::of(size(cell), cell)).collect())
    }

    /// Returns what is too large with what is out of reach, where that may be left out and anything is smaller.
    fn without(&self, error: &PlanError, config: &FitConfig) -> Option<KnownTooLarge> {
        let PlanError::OutOfReach { phase, largest: (largest, _), .. } = error else { return None };
        let known = &config.too_large;
        match phase {
            Phase::Train => {
                let train = self.beyond(largest.extent(), &known.train, config.deterministic)?;
                (train != known.train).then(|| KnownTooLarge { train, ..known.clone() })
            }
            Phase::Infer => {
                let may_skip = self.may_skip_held_out(config.deterministic);
                let edge = may_skip.then(|| largest.edge())?;
                let is_shorter = known.validation.is_none_or(|known| edge < known);
                is_shorter.then(|| KnownTooLarge { validation: Some(edge), ..known.clone() })
            }
        }
    }

    /// Returns from which cells on samples are left out where nothing larger than this is certain to fit, and what is known;
    /// `None` where none may be, or none would be left.
    fn beyond(&self, largest: Extent, known: &[Extent], is_deterministic: bool) -> Option<Vec<Extent>> {
        let Sizes::Padded(Buckets { cells, .. }) = &self.sizes else { return None };
        let larger = cells.iter().copied().filter(|it| it.covers(largest) && *it != largest);
        let all = Extent::innermost(larger.chain(known.iter().copied()));
        let is_any_left = cells.iter().any(|it| !it.covers_any(&all));
        (is_any_left && self.may_leave_out(is_deterministic)).then_some(all)
    }

    /// Checks a plan, and returns the longest edge of a validation where a longer one does not fit and may be left out.
    pub(crate) fn checked(&self, plan: &MemoryPlan, is_deterministic: bool) -> Result<Option<u32>, PlanError> {
        let may_skip = self.may_skip_held_out(is_deterministic);
        match (plan.check(), plan.longest_validation()) {
            (Err(PlanError::ValidationDoesNotFit { .. }), Some(longest)) if may_skip => Ok(Some(longest)),
            (checked, _) => checked.map(|()| None),
        }
    }

    /// Returns the largest cell of which one sample is certain to fit, where another is not and may be left out.
    pub(crate) fn next_cell(&self, error: &PlanError, is_deterministic: bool) -> Option<Extent> {
        let PlanError::OutOfReach { largest: (largest, _), .. } = error else { return None };
        match &self.sizes {
            Sizes::Padded(buckets) if self.may_leave_out(is_deterministic) => {
                buckets.cells.iter().copied().filter(|it| largest.extent().covers(*it)).max()
            }
            Sizes::Cut(_) | Sizes::Padded(_) => None,
        }
    }

    fn may_leave_out(&self, is_deterministic: bool) -> bool {
        self.loader.bad_sample == BadSample::Skip && !is_deterministic
    }

    /// Whether items of a validation may be left out, which have one length then.
    fn may_skip_held_out(&self, is_deterministic: bool) -> bool {
        self.skips_held_out && self.may_leave_out(is_deterministic)
    }

    /// Says which samples are left out, and notes them for the report.
    pub(crate) fn name_left_out(&mut self, too_large: &KnownTooLarge) {
        let (source, cells) = (self.job.source(), &self.loader.cells);
        let is_left_out = |own: Extent| cells.padded(own).covers_any(&too_large.train);
        let ids = (0..).zip(&self.extents).filter(|(_, own)| is_left_out(**own)).map(|(id, _)| id);
        let mut left_out: Vec<_> = ids.map(|id| source.describe(id)).collect();
        if let (Some(edge), Some(most)) = (too_large.validation, self.inference_extents.last()) {
            let what = self.job.describe_validation(*most);
            left_out.push(format!("what is held out and longer than {edge}, as {what}"));
        }
        let names = left_out.iter().take(SHOWN_NAMES);
        names.for_each(|it| eprintln!("warning: left out until there is more memory: {it}"));
        if SHOWN_NAMES < left_out.len() {
            eprintln!("warning: left out {} in all; the report names them", left_out.len());
        }
        self.skipped.extend(left_out.into_iter().map(|it| format!("{it}: it alone is not certain to fit into memory")));
    }
}

/// Says whose activations are recomputed because they have to be.
fn say_recomputed(recompute: Recompute, request: &PlanRequest) {
    if recompute != request.recompute {
        eprintln!(
            "warning: one sample alone does not fit: gradient checkpointing is {recompute}, for less memory and more time"
        );
    }
}

/// Plans with gradient checkpointing where that is needed or faster, as far as it may be switched on, and says so.
pub(crate) fn plan_and_say<J: Job>(
    job: &J,
    request: &PlanRequest,
    may_recompute: MayRecompute,
    open: OpenProbe<'_>,
) -> Result<MemoryPlan, PlanError> {
    let plan = plan_recomputing(job, request, may_recompute, open, &mut progress_of_planning(request.device))?;
    say_chosen(&plan, request);
    Ok(plan)
}

/// Says whose activations a plan recomputes, and why.
fn say_chosen(plan: &MemoryPlan, request: &PlanRequest) {
    let recompute = plan.fingerprint.recompute;
    for Compared { extent, kept, recomputed, .. } in &plan.compared {
        let [kept, again] =
            [kept, recomputed].map(|it| format!("{} at a time take {:.2} ms each", it.batch, 1e3 * it.seconds));
        let chosen = if recompute.is_on(extent.edge()) { "recomputed" } else { "kept" };
        eprintln!(
            "planned     samples of {extent}: {kept}, and {again} with gradient checkpointing: activations are {chosen}"
        );
    }
    let is_compared = |extent| plan.compared.iter().any(|it| it.extent == extent);
    if plan.ladder.iter().any(|it| recompute.is_on(it.edge()) && !is_compared(it.extent())) {
        say_recomputed(recompute, request);
    }
}

/// Plans one sample of the largest extent by dry run, to see that it fits; returns whose activations are recomputed for it.
fn rehearse<J: Job>(
    job: &J,
    request: PlanRequest,
    largest: Extent,
    may_recompute: MayRecompute,
    open: OpenProbe<'_>,
) -> anyhow::Result<Recompute> {
    let ladder = vec![StepShape::of(1, largest)];
    let validated = Extent::outermost(request.inference.iter().map(|it| it.extent()));
    let inference = validated.into_iter().map(|extent| StepShape::of(1, extent)).collect();
    let request = PlanRequest { ladder, inference, is_corrected: false, ..request };
    match plan_and_say(job, &request, may_recompute, open) {
        Err(error) if fits_nowhere(&error) => Err(error.into()),
        Err(error) => {
            eprintln!("warning: no rehearsal, the steps will tell: failed to {}", describe(&error));
            Ok(request.recompute)
        }
        Ok(plan) => Ok(plan.fingerprint.recompute),
    }
}

/// Whether there is no step that the run could take.
pub(crate) fn fits_nowhere(error: &PlanError) -> bool {
    use PlanError::{NeverFits, NoCell, OutOfReach, SmallestDoesNotFit, ValidationDoesNotFit};
    matches!(
        error,
        SmallestDoesNotFit { .. } | ValidationDoesNotFit { .. } | NeverFits { .. } | OutOfReach { .. } | NoCell
    )
}
