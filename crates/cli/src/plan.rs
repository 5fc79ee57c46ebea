//! `plimsoll plan`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole;
use plimsoll_monitor::{Outlook, PlanCell, PlanSource, PlanView, plan_heat_map};
use plimsoll_plan::{Fit, FleetPlan, MemoryPlan, PlannedCell, RealSteps};
use plimsoll_predict::{Phase, Source};
use plimsoll_probe::DeviceKind;
use plimsoll_sampler::StepSize;
use plimsoll_train::{Job, Lengths, PlanRequest, Source as Samples, Trials, open_device};
use plimsoll_types::{Bytes, StepShape};

use crate::args::PlanArgs;
use crate::beat::Beat;
use crate::device::{device_name, open_probe};
use crate::exit::{describe, user_error};
use crate::harness::Harness;
use crate::jobs::{WithJob, with_job};
use crate::place::Place;
use crate::places::check_writable;
use crate::prepare::Prepared;
use crate::report::width;
use crate::settings::Settings;
use crate::soundings::plan_and_say;
use crate::{signals, use_it};

/// Steps of mixed shapes that are planned as a whole, for people to look at: some rounds of the ladder.
const SCHEDULE_STEPS: u32 = 200;

pub(crate) fn plan(args: &PlanArgs, harness: &'static dyn Harness) -> anyhow::Result<ExitCode> {
    if ["svg", "png"].iter().any(|it| args.out.extension().is_some_and(|own| own == *it)) {
        let out = args.out.display();
        return Err(user_error(format!("plan: `--out {out}` is the name of a picture; name a .json file")).into());
    }
    let loaded = args.config.layers(None)?.with(args.steps.given()).load()?;
    let n_devices = loaded.settings.devices().len();
    if args.time && 1 < n_devices {
        let given = format!("`--time` times a step on one device, and `device` names {n_devices}");
        return Err(user_error(format!("plan: {given}; name one of them by `--device`")).into());
    }
    for out in [args.out.clone(), args.out.with_extension("svg"), args.out.with_extension("png")] {
        check_writable(&out)?;
    }
    with_job(harness, &loaded, Plan { args, settings: &loaded.settings })
}

struct Plan<'a> {
    args: &'a PlanArgs,
    settings: &'a Settings,
}

impl WithJob for Plan<'_> {
    type Output = ExitCode;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<ExitCode> {
        let Self { args, settings } = self;
        let request = PlanRequest { lattice: prepared.lattice(), ..prepared.plan_request(settings)? };
        prepared.introduce_device(settings);
        let job = &prepared.job;
        let edge_name = match (job.source().lengths(), prepared.loader.cells.n_axes()) {
            (Lengths::Cut, _) => "edge (pixels)".to_owned(),
            (_, 1) => "padded length".to_owned(),
            _ => format!("padded {}", job.unit_of_length()),
        };
        let edge_name = edge_name.as_str();
        let devices = settings.devices();
        let fleet = FleetPlan::new(planned(&prepared, settings, &request.lattice)?);
        for (names, plan) in unlike(&fleet, &devices) {
            if 1 < devices.len() {
                println!("\n{names}, budget {}\n", plan.budget);
            }
            for phase in [Phase::Train, Phase::Infer] {
                println!("{}", view(plan, phase, edge_name).to_table());
            }
            println!("{}", summary(plan));
        }
        if 1 < devices.len() {
            println!("\n{}", together(&fleet, &devices, edge_name));
        }
        signals::uncut(|| write(&fleet, &args.out, edge_name))?;
        println!("\n{}", outlook(args, settings, &prepared, &request, &fleet)?.to_table(width()));
        println!("{}", explained(&fleet, &args.out));
        Ok(ExitCode::SUCCESS)
    }
}

/// Plans every device, each under its own capacity.
///
/// What a step needs on one device of a kind, it needs on each: it is planned once, on the one that has most.
fn planned<J: Job>(
    prepared: &Prepared<J>,
    settings: &Settings,
    lattice: &[StepShape],
) -> anyhow::Result<Vec<MemoryPlan>> {
    let devices = settings.devices();
    let mut places = Vec::new();
    for place in Place::all(prepared.harness, &devices) {
        places.push((place, place.open()?.capacity()?));
    }
    let mut made = HashMap::new();
    for (kind, _) in &devices {
        let alike = places.iter().filter(|(place, _)| place.kind() == *kind);
        let Some((place, _)) = alike.max_by_key(|it| it.1).filter(|_| !made.contains_key(kind)) else { continue };
        let request = prepared.plan_request(&settings.of_thread(place.at))?;
        let request = PlanRequest { lattice: lattice.to_vec(), schedule_steps: SCHEDULE_STEPS, ..request };
        let (job, open) = (&prepared.job, move || place.open());
        let plan = place.work(|| plan_and_say(job, &request, settings.may_recompute(), &open));
        let plan = if place.is_alone() { plan? } else { plan.with_context(|| place.to_string())? };
        made.insert(*kind, plan);
    }
    Ok(places
        .iter()
        .map(|(place, capacity)| made[&place.kind()].clone().under(*capacity, settings.memory.target))
        .collect())
}

/// Returns the plans that differ, each with the devices that it is for.
fn unlike<'a>(fleet: &'a FleetPlan, devices: &[(DeviceKind, Option<Bytes>)]) -> Vec<(String, &'a MemoryPlan)> {
    let mut unlike: Vec<(Vec<String>, &MemoryPlan)> = Vec::new();
    for ((at, (kind, _)), plan) in devices.iter().enumerate().zip(&fleet.plans) {
        let name = format!("device {at} ({kind})");
        match unlike.iter_mut().find(|it| it.1 == plan) {
            Some((names, _)) => names.push(name),
            None => unlike.push((vec![name], plan)),
        }
    }
    unlike.into_iter().map(|(names, plan)| (names.join(", "), plan)).collect()
}

/// Says what the devices take at once of each edge, and which decides.
fn together(fleet: &FleetPlan, devices: &[(DeviceKind, Option<Bytes>)], edge_name: &str) -> String {
    let width = edge_name.len();
    let line = |edge: &str, columns: &[String], sum: &str, tightest: &str| {
        let columns: Vec<_> = columns.iter().map(|it| format!("{it:>10}")).collect();
        format!("{edge:>width$}  {}  {sum:>8}  {tightest}", columns.join("  "))
    };
    let names: Vec<_> = (0..devices.len()).map(|at| format!("device {at}")).collect();
    let rows = fleet.together.iter().map(|it| {
        let batches: Vec<_> = it.batches.iter().map(ToString::to_string).collect();
        let tightest = format!("device {} ({})", it.tightest, devices[it.tightest].0);
        line(&it.extent.to_string(), &batches, &it.samples.to_string(), &tightest)
    });
    let lines: Vec<_> = [line(edge_name, &names, "together", "tightest")].into_iter().chain(rows).collect();
    lines.join("\n") + "\n"
}

/// Says what was answered, why others may answer otherwise, and how the answer is used.
fn explained(fleet: &FleetPlan, out: &Path) -> String {
    let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    let use_it = use_it::train_with(&[format!("memory.plan={}", out.display())]);
    let within = match (fleet.plans.as_slice(), fleet.together.last()) {
        ([plan], _) => format!("the budget of {}", plan.budget),
        (plans, Some(it)) => {
            let (at, budget) = (it.tightest, plans[it.tightest].budget);
            let idle =
                if it.batches[at] == 0 { ", and takes none of the largest: its share is empty there" } else { "" };
            format!("each device's own budget; the tightest is device {at}, with {budget}{idle}")
        }
        (_, None) => "each device's own budget".to_owned(),
    };
    format!(
        "what this is: of each size an upper bound, measured (memo) or certain by measured ones (certificate), within \
         {within}\n\
         others differ: `find` tries real steps up to the largest and leaves some room, and a run measures its own steps\n\
         use it: {use_it}"
    )
}

/// Writes the plans, and the picture of the tightest.
fn write(fleet: &FleetPlan, out: &Path, edge_name: &str) -> anyhow::Result<()> {
    fleet.write(out)?;
    println!("plan: {}", out.display());
    let plan = &fleet.plans[fleet.tightest().unwrap_or(0)];
    let picture = plan_heat_map(&view(plan, Phase::Train, edge_name));
    for (extension, bytes) in [("svg", picture.svg.as_bytes()), ("png", &picture.png())] {
        let path = out.with_extension(extension);
        write_whole(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        println!("picture: {}", path.display());
    }
    Ok(())
}

/// Shows the cells of a phase by what is held against the budget: the upper bound.
fn view(plan: &MemoryPlan, phase: Phase, edge_name: &str) -> PlanView {
    let mut cells: Vec<&PlannedCell> = plan.of(phase).collect();
    cells.sort_by_key(|it| (it.extent.positions(), it.extent, it.batch));
    let extents: BTreeSet<_> = cells.iter().map(|it| it.extent).collect();
    let batches: BTreeSet<_> = cells.iter().map(|it| it.batch).collect();
    let name = match phase {
        Phase::Train => "training",
        Phase::Infer => "inference",
    };
    PlanView {
        job: format!("{} ({name})", plan.fingerprint.model),
        device: plan.fingerprint.device.clone(),
        edge_name: edge_name.to_owned(),
        capacity: plan.capacity,
        budget: plan.budget,
        extents: extents.into_iter().collect(),
        batches: batches.into_iter().collect(),
        cells: cells.iter().map(|it| shown(it)).collect(),
    }
}

fn shown(cell: &PlannedCell) -> PlanCell {
    PlanCell {
        shape: cell.shape(),
        reserved: (cell.fit != Fit::NeverFits).then_some(cell.upper),
        in_use: cell.in_use,
        source: match cell.source {
            Source::Memo => PlanSource::Memo,
            Source::DryRun => PlanSource::DryRun,
            Source::Certificate => PlanSource::Certificate,
        },
    }
}

/// Says what the cells do not: what reality added, and what the order of shapes is worth.
fn summary(plan: &MemoryPlan) -> String {
    let mut lines = Vec::new();
    for (name, it) in [("training", &plan.training_correction), ("inference", &plan.inference_correction)] {
        if !it.measured.is_empty() {
            let (pages, auxiliary, n) = (it.pages, it.auxiliary, it.measured.len());
            lines.push(format!("correction of {name}: {pages} pages and {auxiliary}, from real steps of {n} cells"));
        }
    }
    if let Some(schedule) = &plan.schedule {
        let (n, first) = (schedule.n_steps, schedule.first);
        lines.push(format!("{n} steps of mixed shapes hold {} at most, with {first} first", schedule.high_water));
        let (kept, saved) = (schedule.high_water_kept, schedule.saved());
        lines.push(format!("  {kept} if no page is returned between shapes; the order saves {saved} of that"));
    }
    if 0 < plan.n_made_again {
        let n = plan.n_made_again;
        lines.push(format!("{n} rehearsals met kernels that were not tuned yet, and were made again once they were"));
    }
    match plan.first(Phase::Train) {
        Some(cell) if cell.page > Bytes::ZERO => {
            lines.push(format!("the first step should be {}: it fixes the size of pages", cell.shape()));
        }
        Some(cell) => lines.push(format!("the largest step that fits is {}", cell.shape())),
        None => lines.push("no training step fits".to_owned()),
    }
    lines.join("\n")
}

/// Says what training on all samples would take, with the largest cells that fit; what the tightest device holds.
fn outlook<J: Job>(
    args: &PlanArgs,
    settings: &Settings,
    prepared: &Prepared<J>,
    request: &PlanRequest,
    fleet: &FleetPlan,
) -> anyhow::Result<Outlook> {
    let taken = fleet.together.iter().rfind(|it| 0 < it.samples).context("plan: no training step fits")?;
    // One that takes none of this edge holds nothing for it.
    let is_in = |at: &usize| 0 < taken.batches[*at];
    let tightest = (0..fleet.plans.len()).filter(is_in).min_by_key(|at| (taken.batches[*at], fleet.plans[*at].budget));
    let at = tightest.unwrap_or(taken.tightest);
    let cell = fleet.plans[at].cell(Phase::Train, StepShape::of(taken.batches[at], taken.extent));
    let cell = cell.context("plan: no training step fits")?;
    let shape = StepShape::of(u32::try_from(taken.samples).unwrap_or(u32::MAX), taken.extent);
    let samples = prepared.job.source().n_samples();
    let per_step = request.loader.samples_of(cell.extent);
    let positions: u64 = prepared.extents.iter().map(|it| it.positions()).sum();
    let steps_per_epoch = match request.loader.step_size() {
        StepSize::Positions(n) if 0 < positions => positions.div_ceil(n),
        _ => samples.div_ceil(u64::from(per_step)),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of steps below 2^53")]
    let steps = args.epochs.map_or(settings.train.steps, |it| (it * steps_per_epoch as f64).ceil() as u64);
    let epochs = args.epochs.unwrap_or(settings.train.steps as f64 / steps_per_epoch as f64);
    let accumulation_steps = per_step.div_ceil(shape.samples.max(1));
    let timed = if args.time { Some(seconds_per_step(settings, prepared, request, cell)?) } else { None };
    Ok(Outlook {
        samples,
        task_shares: task_shares(&prepared.job),
        epochs,
        shape,
        is_packed: prepared.is_packed(),
        accumulation_steps,
        batches: steps.saturating_mul(u64::from(accumulation_steps)),
        steps,
        batch_memory: Some(cell.upper.saturating_sub(cell.resident)),
        peak: Some(cell.upper),
        seconds: timed.map(|it| it * steps as f64),
    })
}

/// Returns the share of each task among the samples, where there are several.
fn task_shares<J: Job>(job: &J) -> Vec<(String, f64)> {
    let lengths = job.source().lengths();
    let Some(index) = lengths.index() else { return Vec::new() };
    let (names, tasks) = (job.tasks().iter().zip(0..), index.tasks().unwrap_or_default());
    let share = |task: u16| tasks.iter().filter(|it| **it == task).count() as f64 / tasks.len() as f64;
    names.map(|(name, task)| (name.clone(), share(task))).collect()
}

/// Runs the step twice: the first compiles, and makes the optimizer's state.
fn seconds_per_step<J: Job>(
    settings: &Settings,
    prepared: &Prepared<J>,
    request: &PlanRequest,
    cell: &PlannedCell,
) -> anyhow::Result<f64> {
    let device = open_device(request.device).map_err(|error| user_error(describe(&error)))?;
    let keys = request.keys(&device_name(prepared.harness, settings)?);
    let beat = Beat::start("timing");
    beat.at("training", 0, 2);
    let mut trials = Trials::try_new(&prepared.job, device, keys, open_probe(prepared.harness, settings)?)?
        .recovering(request.optimizer_recovery);
    trials.train(cell.shape(), request.loader.samples_of(cell.extent))?;
    beat.at("training", 1, 2);
    Ok(trials.train(cell.shape(), request.loader.samples_of(cell.extent))?.seconds)
}
