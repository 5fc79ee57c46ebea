//! `plimsoll train`.

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_monitor::{Progress, RunFacts, StepSettings, TrainingReport};
use plimsoll_plan::MemoryPlan;
use plimsoll_probe::DeviceKind;
use plimsoll_train::{
    CONFIG_FILE, Checkpoint, Death, Device, Doing, Existing, FitConfig, Fleet, Job, Outcome, PlanRequest, PlanSparing,
    RunDir, RunDirError, Shell, StopFlag, TrainError, open_device, plan_sparing,
};
use plimsoll_types::{EndReason, Event};

use crate::args::{LogFormat, TrainArgs};
use crate::auto_batch::find_batch;
use crate::beat::Beat;
use crate::device::open_probe;
use crate::exit::{Interrupted, describe, signalled, user_error};
use crate::harness::Harness;
use crate::jobs::{SIGNATURE_FILE, WithJob, with_loaded};
use crate::load::Loaded;
use crate::loading::Loading;
use crate::prepare::{Prepared, SHOWN_NAMES};
use crate::ranks::{Common, Other, fit_beside};
use crate::scrape::{Endpoint, Scraped};
use crate::settings::Settings;
use crate::sizes::Sizes;
use crate::step_settings::Asked;
use crate::told::Told;
use crate::values::{JobName, PlanSetting};
use crate::{go_on, ranks, report, say, signals, trace, use_it, worker};

pub(crate) fn train(args: &TrainArgs, harness: &'static dyn Harness) -> anyhow::Result<ExitCode> {
    let existing = match (args.resume, args.overwrite) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Overwrite,
        _ => Existing::Refuse,
    };
    if args.log == LogFormat::Json {
        say::quietly();
    }
    let mut fleet = ranks::join()?;
    let out = ranks::out(&mut *fleet, args, existing)?;
    // A run that was killed before it wrote its own begins again with what is given.
    let resumed = args.resume.then(|| out.join(CONFIG_FILE)).filter(|it| it.is_file() || Checkpoint::is_any(&out));
    let mut loaded = args.values.layers(resumed)?.load()?;
    if is_supervised(args) {
        #[cfg(unix)]
        return crate::supervise::supervise(args, &out, &loaded.settings);
    }
    let death = worker::begin(fleet.rank())?;
    if let Some(file) = args.trace.as_deref().filter(|_| fleet.rank() == 0) {
        trace::begin(file)?;
    }
    // Before anything is written: a signal from here on ends the run and not only the process.
    let stop = StopFlag::default();
    signals::watch(&stop)?;
    let address = args.metrics_addr.filter(|_| fleet.rank() == 0);
    let scraped = address.map(|it| Endpoint::bind(it)?.serve()).transpose()?;
    let mut on_wait = |it: &RunDirError| eprintln!("waiting     for up to 10 s to {}", describe(it));
    let beat = Beat::start("waiting");
    let machines = ranks::machines(&mut *fleet)?;
    loaded.settings = ranks::own_settings(&mut *fleet, &loaded.settings, &machines, harness)?;
    let mut run_dir = ranks::open_dir(&mut *fleet, &out, existing, &mut on_wait)?;
    if fleet.n_ranks() > 1 {
        run_dir.set_machines(machines, worker::oom_kills());
    }
    worker::note_refusals(&mut run_dir);
    drop(beat);
    let place = (out.as_path(), u64::from(fleet.n_ranks()));
    let loading = Loading::begin(harness, &loaded.settings, place, stop.clone())?;
    with_loaded(
        &loaded.settings,
        loading,
        Train { args, loaded: &loaded, run_dir, existing, death, stop, fleet, scraped },
    )
}

/// Whether the run is a worker's, and this process only looks after it; there are no process groups but on Unix.
fn is_supervised(args: &TrainArgs) -> bool {
    cfg!(unix) && !args.no_supervise && !worker::is_one() && ranks::launched().is_none()
}

struct Train<'a> {
    args: &'a TrainArgs,
    loaded: &'a Loaded,
    run_dir: RunDir,
    existing: Existing,
    death: Option<Death>,
    stop: StopFlag,
    fleet: Box<dyn Fleet>,
    scraped: Option<Scraped>,
}

impl WithJob for Train<'_> {
    type Output = ExitCode;

    fn with<J: Job>(self, prepared: Prepared<J>) -> anyhow::Result<ExitCode> {
        let mut loaded = self.loaded.clone();
        // Nothing of the run is there yet that a signal would have to wait for.
        let at_once = signals::at_once(self.run_dir.undoing());
        if let Some(signal) = self.stop.signal() {
            return Err(Interrupted { signal }.into());
        }
        find_batch(&mut loaded, &prepared)?;
        loaded.keep_packing(prepared.is_packed());
        if let Sizes::Cut(bounds) = &prepared.sizes {
            loaded.keep_bounds(bounds);
        }
        prepared.run(&loaded, self, at_once)
    }
}

/// What this process begins with.
struct Begins {
    /// The settings of its first rank.
    own: Settings,
    config: FitConfig,
    plan: Option<MemoryPlan>,
    request: PlanRequest,
    device: Device,
    others: Vec<Other>,
}

impl<J: Job> Prepared<J> {
    fn run(mut self, loaded: &Loaded, run: Train<'_>, at_once: signals::AtOnce) -> anyhow::Result<ExitCode> {
        let settings = &loaded.settings;
        let step_settings = self.step_settings(settings, Asked(run.loaded.settings.batch.size));
        let Train { args, mut run_dir, existing, death, stop, fleet, scraped, .. } = run;
        // Dropped before the run directory: one of them alone leaves the place as it was.
        let at_once = at_once;
        let (out, is_first) = (&run_dir.root().to_owned(), fleet.rank() == 0);
        self.introduce(loaded, out);

        // A run that goes on has its plan in the checkpoint.
        let goes_on = existing == Existing::Resume && Checkpoint::is_any(out);
        let begins = self.begins(settings, &run_dir, (existing, goes_on))?;
        if is_first {
            self.write_files(&run_dir, goes_on)?;
        }
        let facts = self.facts(step_settings);
        let told =
            if is_first { Told::first(&run_dir, &facts, settings, (args.log, scraped))? } else { Told::new(args.log) };
        let told = RefCell::new(told);
        let common = Common {
            harness: self.harness,
            devices: &settings.devices(),
            reduction: settings.train.reduction,
            existing,
            config_text: &loaded.to_toml(),
            death,
            stop: &stop,
        };
        let (outcome, warnings) = self.fit(begins, (&mut run_dir, fleet), &told, &common, at_once)?;
        if !is_first {
            return Ok(exit_code(&outcome, &stop));
        }
        let facts = report::facts::at_end(facts, &outcome, warnings);
        let report = report::outputs::of_run(&run_dir, &outcome, facts);
        drop(told);
        Ok(conclude((args, settings.job), &report.map_err(TrainError::from)?, &outcome, out, &stop))
    }

    /// Plans what is to be planned, and opens the device.
    fn begins(
        &mut self,
        settings: &Settings,
        run_dir: &RunDir,
        (existing, goes_on): (Existing, bool),
    ) -> anyhow::Result<Begins> {
        let n_devices = settings.devices().len();
        let others = (1..n_devices).map(|rank| self.other(settings, rank, run_dir.root(), existing, goes_on));
        let others = others.collect::<anyhow::Result<_>>()?;
        let own = self.of_thread(settings, 0)?;
        let (config, plan) = self.begins_with(&own, goes_on, run_dir.path())?;
        let request = self.plan_request(&own)?;
        let device = open_device(settings.device()).map_err(|error| user_error(describe(&error)))?;
        if 1 < n_devices {
            self.probe = self.harness.open(&settings.devices(), 0)?;
        }
        Ok(Begins { own, config, plan, request, device, others })
    }

    /// Writes what the run directory holds besides the usual; a run that goes on keeps its own, which belong to its checkpoint.
    fn write_files(&self, run_dir: &RunDir, goes_on: bool) -> anyhow::Result<()> {
        let is_due = |name: &str| !goes_on || (name == SIGNATURE_FILE && !run_dir.root().join(name).exists());
        for (name, content) in self.files.iter().filter(|(name, _)| is_due(name)) {
            signals::uncut(|| run_dir.write(name, content.as_bytes())).map_err(TrainError::from)?;
        }
        Ok(())
    }

    /// Says what the log does not, as far as that is known before the first step.
    fn facts(&self, step_settings: StepSettings) -> RunFacts {
        RunFacts {
            step_settings,
            data: self.data.clone(),
            skipped_files: self.skipped.clone(),
            loading_peak: self.loaded.peak,
            warnings: self.notes.warnings.clone(),
            ..RunFacts::default()
        }
    }

    /// Trains; returns how that ended, and of what the user was warned.
    fn fit(
        self,
        begins: Begins,
        (run_dir, fleet): (&mut RunDir, Box<dyn Fleet>),
        told: &RefCell<Told>,
        common: &Common<'_>,
        at_once: signals::AtOnce,
    ) -> anyhow::Result<(Outcome, Vec<String>)> {
        let Begins { own, config, plan, request, device, others } = begins;
        let mut warnings = self.notes.warnings;
        let mut observer = |event: &Event, progress: &Progress| told.borrow_mut().hear(event, progress);
        let mut watching = |doing: Doing, progress: &Progress| told.borrow_mut().display.watch(doing, progress);
        let mut warn = |warning: &str| {
            told.borrow_mut().display.clear();
            eprintln!("warning: {warning}");
            warnings.push(warning.to_owned());
        };
        let wants_plans = own.device() != DeviceKind::Flex && own.memory.plan != PlanSetting::Off;
        let open = || open_probe(common.harness, &own);
        let mut plan_anew = |recompute| plan_sparing(&self.job, &request, (recompute, plan.as_ref()), &open);
        let shell = Shell {
            run_dir,
            existing: common.existing,
            device,
            probe: common.harness.on_fit(self.probe),
            stop: common.stop.clone(),
            observer: &mut observer,
            watching: Some(&mut watching),
            warn: &mut warn,
            config_text: common.config_text,
            death: common.death.clone(),
            plan_sparing: wants_plans.then_some(&mut plan_anew as PlanSparing<'_>),
            fleet,
        };
        drop(at_once);
        let outcome = fit_beside(&self.job, (&config, shell), others, common);
        told.borrow_mut().display.end();
        Ok((outcome?, warnings))
    }

    /// Returns the settings of a rank of this process, with its part of a device that it shares.
    fn of_thread(&self, settings: &Settings, rank: usize) -> anyhow::Result<Settings> {
        let (own, devices) = (settings.of_thread(rank), settings.devices());
        let (kind, set) = devices[rank];
        let is_shared = 1 < devices.iter().filter(|it| it.0 == kind).count();
        if set.is_some() || !is_shared {
            return Ok(own);
        }
        let share = self.harness.open(&devices, rank)?.capacity()?;
        Ok(own.beside(1, Some(share)))
    }

    /// Prepares another rank of this process, before any of them runs.
    fn other(
        &mut self,
        settings: &Settings,
        rank: usize,
        out: &Path,
        existing: Existing,
        goes_on: bool,
    ) -> anyhow::Result<Other> {
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        let run_dir = RunDir::of_rank(out, number, existing).map_err(TrainError::from)?;
        let own = self.of_thread(settings, rank)?;
        let (config, _) = self.begins_with(&own, goes_on, run_dir.path())?;
        Ok(Other { rank, run_dir, config })
    }

    fn introduce(&self, loaded: &Loaded, out: &Path) {
        let settings = &loaded.settings;
        self.introduce_device(settings);
        for note in self.notes.all() {
            eprintln!("batch       {note}");
        }
        for line in &self.data {
            eprintln!("data        {line}");
        }
        let crate::loading::Loaded { peak, time } = self.loaded;
        let peak = peak.map_or_else(String::new, |it| format!(", peak {it}"));
        eprintln!("data        loaded in {:.1} s{peak}", time.as_secs_f64());
        for skipped in self.skipped.iter().take(SHOWN_NAMES) {
            eprintln!("warning: skipped {skipped}");
        }
        if SHOWN_NAMES < self.skipped.len() {
            eprintln!("warning: skipped {} files in all; the report names them", self.skipped.len());
        }
        eprintln!("run         {}", out.display());
    }
}

/// Says how it went, and how to use the model, or how to go on when it was interrupted.
fn conclude(
    (args, job): (&TrainArgs, JobName),
    report: &TrainingReport,
    outcome: &Outcome,
    out: &Path,
    stop: &StopFlag,
) -> ExitCode {
    if args.log == LogFormat::Json {
        return exit_code(outcome, stop);
    }
    println!("{}", report.to_table(report::width()));
    if let Some(stream) = outcome.stream {
        let (n, bytes, empty, full) = (stream.most_samples, stream.most_bytes, stream.times_empty, stream.times_full);
        println!("look-ahead: at most {n} samples and {bytes}, {empty} times empty, {full} times full");
    }
    println!("run directory: {}", out.display());
    if outcome.reason == EndReason::StoppedEarly {
        println!("ended early after {} steps: `train.patience` validations in a row were no better", outcome.step);
    }
    if outcome.reason != EndReason::Interrupted {
        println!("use its model with: {}", use_it::model_of(job, out));
        return exit_code(outcome, stop);
    }
    println!("interrupted after {} steps; go on with: {}", outcome.step, go_on::command(args, out));
    exit_code(outcome, stop)
}

/// Returns how a process ends whose run has ended so.
fn exit_code(outcome: &Outcome, stop: &StopFlag) -> ExitCode {
    match outcome.reason {
        EndReason::Completed | EndReason::StoppedEarly => ExitCode::SUCCESS,
        EndReason::Interrupted => ExitCode::from(signalled(stop.signal().unwrap_or(0))),
    }
}
