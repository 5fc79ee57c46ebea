//! `plimsoll train`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use plimsoll_monitor::{Progress, TrainingReport};
use plimsoll_policy::Bounds;
use plimsoll_probe::{Probe, open};
use plimsoll_train::{
    CONFIG_FILE, EVENTS_FILE, Existing, Outcome, RunDir, Shell, StopFlag, TrainError, fit, open_device,
};
use plimsoll_types::{EndReason, Event};
use plimsoll_workloads::sr::{Photos, Sr};

use crate::args::TrainArgs;
use crate::display::Display;
use crate::exit::{describe, user_error};
use crate::load::Loaded;
use crate::settings::Notes;
use crate::values::JobName;
use crate::{reports, signals};

/// The folder of run directories, where none is named.
const RUNS: &str = "runs";
/// Names of images that the terminal shows before it says how many more there are.
const SHOWN_NAMES: usize = 8;

pub(crate) fn train(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    let existing = match (args.resume, args.overwrite) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Overwrite,
        _ => Existing::Refuse,
    };
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_out(existing)?,
    };
    let resumed = args.resume.then(|| out.join(CONFIG_FILE)).filter(|it| it.is_file());
    let loaded = args.config.layers(resumed).load()?;
    let prepared = match loaded.settings.job {
        JobName::Sr => Prepared::new(&loaded)?,
    };
    prepared.run(&loaded, &out, existing)
}

/// Everything that is checked before a run directory is touched.
struct Prepared {
    probe: Box<dyn Probe>,
    photos: Arc<Photos>,
    bounds: Bounds,
    notes: Notes,
}

impl Prepared {
    fn new(loaded: &Loaded) -> anyhow::Result<Self> {
        let settings = &loaded.settings;
        let probe = open(settings.device, settings.memory.capacity.0).map_err(|error| user_error(describe(&error)))?;
        let capacity = probe.capacity().map_err(|error| user_error(describe(&error)))?;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
        let photos = Photos::read(&settings.photos(fixtures, settings.smallest_patch(capacity)));
        let photos = Arc::new(photos.map_err(|error| user_error(describe(&error)))?);
        let (bounds, notes) = settings.bounds(capacity, photos.largest_patch())?;
        Ok(Self { probe, photos, bounds, notes })
    }

    fn run(self, loaded: &Loaded, out: &Path, existing: Existing) -> anyhow::Result<ExitCode> {
        let settings = &loaded.settings;
        let device = open_device(settings.device, settings.memory.gradient_checkpointing);
        let device = device.map_err(|error| user_error(describe(&error)))?;
        let mut run_dir = RunDir::open(out, existing).map_err(TrainError::from)?;
        let stop = StopFlag::default();
        signals::watch(&stop)?;
        self.introduce(loaded, out);

        let config = settings.fit(self.bounds, self.probe.page().map_err(TrainError::from)?);
        let job = Sr::new(settings.sr(), Arc::clone(&self.photos));
        let (mut display, config_text) = (Display::new(), loaded.to_toml());
        let mut observer = |event: &Event, progress: &Progress| display.show(event, progress);
        let shell = Shell {
            run_dir: &mut run_dir,
            existing,
            device,
            probe: self.probe,
            stop: stop.clone(),
            observer: &mut observer,
            config_text: &config_text,
        };
        let outcome = fit(&job, &config, shell);
        display.clear();
        let outcome = outcome?;
        let report = reports::write(&run_dir, &outcome, self.notes.warnings, self.photos.skipped.clone());
        Ok(conclude(&report.map_err(TrainError::from)?, &outcome, out, &stop))
    }

    fn introduce(&self, loaded: &Loaded, out: &Path) {
        let (settings, photos) = (&loaded.settings, &self.photos);
        if let Ok(capacity) = self.probe.capacity() {
            let budget = capacity.scale(settings.memory.target);
            eprintln!("device      {}, capacity {capacity}, budget {budget}", self.probe.name());
        }
        for note in self.notes.all() {
            eprintln!("batch       {note}");
        }
        eprintln!("data        {} images to train on, {} held out", photos.train.len(), photos.validation.len());
        eprintln!("validation  {}", names(photos.validation.iter().map(|it| it.name.as_str())));
        for skipped in photos.skipped.iter().take(SHOWN_NAMES) {
            eprintln!("warning: skipped {skipped}");
        }
        if SHOWN_NAMES < photos.skipped.len() {
            eprintln!("warning: skipped {} files in all; the report names them", photos.skipped.len());
        }
        eprintln!("run         {}", out.display());
    }
}

/// Says how it went, and how to go on when it was interrupted.
fn conclude(report: &TrainingReport, outcome: &Outcome, out: &Path, stop: &StopFlag) -> ExitCode {
    println!("{}", report.to_table());
    println!("run directory: {}", out.display());
    if outcome.reason == EndReason::Completed {
        return ExitCode::SUCCESS;
    }
    println!(
        "interrupted after {} steps; go on with: cargo xtask train --out {} --resume",
        outcome.step,
        out.display()
    );
    let signal = u8::try_from(stop.signal().unwrap_or(0)).unwrap_or(0);
    ExitCode::from(128 + signal)
}

/// Returns the next free run directory, or the last one with a run to resume.
fn default_out(existing: Existing) -> anyhow::Result<PathBuf> {
    let path = |n: u32| Path::new(RUNS).join(format!("run-{n:04}"));
    let free = (1..u32::MAX).find(|n| !path(*n).exists()).unwrap_or(u32::MAX);
    if existing != Existing::Resume {
        return Ok(path(free));
    }
    let last = (1..free).rev().map(path).find(|it| it.join(EVENTS_FILE).is_file());
    Ok(last.ok_or_else(|| user_error(format!("resume: there is no run in {RUNS}/; name one with `--out DIR`")))?)
}

fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    let n = all.len();
    let shown: Vec<_> = all.take(SHOWN_NAMES).collect();
    let more = if SHOWN_NAMES < n { format!(" and {} more", n - SHOWN_NAMES) } else { String::new() };
    shown.join(", ") + &more
}
