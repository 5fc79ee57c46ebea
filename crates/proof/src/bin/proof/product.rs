//! Runs of the product itself, in a process of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use plimsoll_monitor::{Log, decode};
use plimsoll_proof::plans::ProductRun;
use plimsoll_types::{Bytes, Event};

use crate::Failed;
use crate::spawn::{Place, Running};

/// Runs `plimsoll train`, which lies beside this program, and returns its log and its wall time in seconds.
///
/// `meanwhile` is done again and again, beside the log that is being written.
pub(crate) fn train(
    args: &[String],
    data: Option<&Path>,
    end: Option<Instant>,
    meanwhile: &mut dyn FnMut(&Path) -> Result<(), Failed>,
) -> Result<(Log, f64), Failed> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let log = out.join("events.jsonl");
    let mut command = Command::new(program()?);
    command.arg("train").args(args).arg("--out").arg(&out);
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    let start = Instant::now();
    Running::begin(&mut command)?.finish(end, &mut || meanwhile(&log))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((decode(&fs::read_to_string(log)?)?, seconds))
}

fn program() -> Result<PathBuf, Failed> {
    Ok(std::env::current_exe()?.with_file_name(format!("plimsoll{}", std::env::consts::EXE_SUFFIX)))
}

/// Returns how many steps a log has; none while there is no log.
pub(crate) fn n_steps(log: &Path) -> usize {
    let log = fs::read_to_string(log).ok().and_then(|it| decode(&it).ok()).unwrap_or_default();
    log.events.iter().filter(|it| matches!(it, Event::StepDone(_))).count()
}

/// What a run is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) capacity: Bytes,
    pub(crate) steps: u64,
    /// Keys with their values.
    pub(crate) set: Vec<String>,
}

impl Place {
    /// Trains the job of the place with the product.
    pub(crate) fn train(
        &self,
        what: &str,
        settings: &Settings,
        meanwhile: &mut dyn FnMut(&Path) -> Result<(), Failed>,
    ) -> Result<ProductRun, Failed> {
        let Settings { capacity, steps, set } = settings;
        let mut args = vec![
            "--no-supervise".to_owned(),
            format!("--job={}", self.job),
            format!("--device={}", self.device),
            format!("--capacity={capacity}"),
            format!("--steps={steps}"),
        ];
        args.extend(set.iter().map(|it| format!("--set={it}")));
        let data = self.data.as_ref().map(|it| it.join(self.job));
        let (log, seconds) = train(&args, data.as_deref(), self.end, meanwhile)?;
        Ok(ProductRun::of(self.job, what, &log.events, seconds))
    }
}
