//! `plimsoll plan`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use plimsoll_files::write_whole;
use plimsoll_monitor::{Outlook, PlanCell, PlanSource, PlanView, plan_heat_map};
use plimsoll_plan::{Fit, MemoryPlan, PlannedCell, RealSteps};
use plimsoll_predict::{Phase, Source};
use plimsoll_train::{Job, Lengths, PlanRequest, Source as Samples, Trials, open_device, plan_memory};
use plimsoll_types::Bytes;

use crate::args::PlanArgs;
use crate::beat::Beat;
use crate::display::progress_of_planning;
use crate::exit::{describe, user_error};
use crate::harness::Harness;
use crate::jobs::{WithJob, with_job};
use crate::places::check_writable;
use crate::prepare::{Prepared, open_probe};
use crate::settings::Settings;
use crate::{signals, use_it};

pub(crate) fn plan(args: &PlanArgs, harness: &'static dyn Harness) -> anyhow::Result<ExitCode> {
    if ["svg", "png"].iter().any(|it| args.out.extension().is_some_and(|own| own == *it)) {
        let out = args.out.display();
        return Err(user_error(format!("plan: `--out {out}` is the name of a picture; name a .json file")).into());
    }
    let loaded = args.config.layers(None)?.with(args.steps.given()).load()?;
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
        let edge_name = if job.source().lengths() == Lengths::Cut { "edge (pixels)" } else { "padded length" };
        let plan = plan_memory(job, &request, &|| open_probe(prepared.harness, settings), &mut progress_of_planning())?;
        for phase in [Phase::Train, Phase::Infer] {
            println!("{}", view(&plan, phase, edge_name).to_table());
        }
        println!("{}", summary(&plan));
        signals::uncut(|| write(&plan, &args.out, edge_name))?;
        println!("\n{}", outlook(args, settings, &prepared, &request, &plan)?.to_table());
        println!("{}", explained(&plan, &args.out));
        Ok(ExitCode::SUCCESS)
    }
}

/// Says what was answered, why others may answer otherwise, and how the answer is used.
fn explained(plan: &MemoryPlan, out: &Path) -> String {
    let (budget, out) = (plan.budget, std::path::absolute(out).unwrap_or_else(|_| out.to_owned()));
    let use_it = use_it::train_with(&[format!("memory.plan={}", out.display())]);
    format!(
        "what this is: of each size an upper bound, measured (memo) or certain by measured ones (certificate), within the \
         budget of {budget}\n\
         others differ: `find` tries real steps up to the largest and leaves some room, and a run measures its own steps\n\
         use it: {use_it}"
    )
}

/// Writes the plan and its picture.
fn write(plan: &MemoryPlan, out: &Path, edge_name: &str) -> anyhow::Result<()> {
    plan.write(out)?;
    println!("plan: {}", out.display());
    let picture = plan_heat_map(&view(plan, Phase::Train, edge_name));
    for (extension, bytes) in [("svg", picture.svg.as_bytes()), ("png", &picture.png)] {
        let path = out.with_extension(extension);
        write_whole(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        println!("picture: {}", path.display());
    }
    Ok(())
}

/// Shows the cells of a phase by what is held against the budget: the upper bound.
fn view(plan: &MemoryPlan, phase: Phase, edge_name: &str) -> PlanView {
    let mut cells: Vec<&PlannedCell> = plan.of(phase).collect();
    cells.sort_by_key(|it| (it.edge, it.batch));
    let sorted = |of: fn(&PlannedCell) -> u32| {
        let mut values: Vec<u32> = cells.iter().map(|it| of(it)).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
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
        edges: sorted(|it| it.edge),
        batches: sorted(|it| it.batch),
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
    match plan.first(Phase::Train) {
        Some(cell) if cell.page > Bytes::ZERO => {
            lines.push(format!("the first step should be {}: it fixes the size of pages", cell.shape()));
        }
        Some(cell) => lines.push(format!("the largest step that fits is {}", cell.shape())),
        None => lines.push("no training step fits".to_owned()),
    }
    lines.join("\n")
}

/// Says what training on all samples would take, with the largest cell that fits.
fn outlook<J: Job>(
    args: &PlanArgs,
    settings: &Settings,
    prepared: &Prepared<J>,
    request: &PlanRequest,
    plan: &MemoryPlan,
) -> anyhow::Result<Outlook> {
    let fitting = plan.of(Phase::Train).filter(|it| it.fit == Fit::Fits);
    let cell = fitting.max_by_key(|it| (it.edge, it.batch)).context("plan: no training step fits")?;
    let samples = prepared.job.source().n_samples();
    let per_step = request.loader.samples_of(cell.edge);
    let steps_per_epoch = samples.div_ceil(u64::from(per_step));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of steps below 2^53")]
    let steps = args.epochs.map_or(settings.train.steps, |it| (it * steps_per_epoch as f64).ceil() as u64);
    let epochs = args.epochs.unwrap_or(settings.train.steps as f64 / steps_per_epoch as f64);
    let accumulation_steps = per_step.div_ceil(cell.batch.max(1));
    let timed = if args.time { Some(seconds_per_step(settings, prepared, request, cell)?) } else { None };
    Ok(Outlook {
        samples,
        task_shares: task_shares(&prepared.job),
        epochs,
        shape: cell.shape(),
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
    let Lengths::Known(index) = job.source().lengths() else { return Vec::new() };
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
    let device = open_device(request.device, request.checkpointing).map_err(|error| user_error(describe(&error)))?;
    let beat = Beat::start("timing");
    beat.at("training", 0, 2);
    let mut trials = Trials::try_new(&prepared.job, device, open_probe(prepared.harness, settings)?)?
        .recovering(request.optimizer_recovery);
    trials.train(cell.shape(), request.loader.samples_of(cell.edge))?;
    beat.at("training", 1, 2);
    Ok(trials.train(cell.shape(), request.loader.samples_of(cell.edge))?.seconds)
}
