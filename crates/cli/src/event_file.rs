//! Event files of TensorBoard.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use plimsoll_files::WholeFile;
use plimsoll_monitor::TensorBoard;
use plimsoll_train::{log_files, read_log_with};
use plimsoll_types::Event;

use crate::exit::{UserError, cannot_write, user_error};
use crate::report::Recorded;

/// The folder of event files, inside a run directory.
const FOLDER: &str = "tensorboard";

/// An event file that is written while a run goes on.
pub(crate) struct EventFile {
    path: PathBuf,
    file: File,
    records: TensorBoard,
}

impl EventFile {
    /// Begins a file in a run directory, beside those of the processes before this one.
    pub(crate) fn create(run_dir: &Path) -> Result<Self, UserError> {
        let folder = run_dir.join(FOLDER);
        let created = fs::create_dir_all(&folder).and_then(|()| create_new(&folder));
        let (path, file) = created.map_err(|error| cannot_write(&folder, &error))?;
        Ok(Self { path, file, records: TensorBoard::default() })
    }

    /// Writes what an event has to say, at once.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<(), UserError> {
        let bytes = self.records.hear(event, now());
        if bytes.is_empty() {
            return Ok(());
        }
        self.file.write_all(bytes).map_err(|error| cannot_write(&self.path, &error))
    }
}

/// Opens a file that is after those that are there by its name, which is how they are read.
fn create_new(folder: &Path) -> io::Result<(PathBuf, File)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds since 1970")]
    let begun = now() as u64;
    let mut n = fs::read_dir(folder)?.flatten().filter_map(|it| number(&it.path())).max().map_or(begun, |it| it + 1);
    n = n.max(begun);
    loop {
        let path = folder.join(name(n));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
            opened => return opened.map(|file| (path, file)),
        }
    }
}

fn name(n: u64) -> String {
    format!("events.out.tfevents.{n:010}")
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("events.out.tfevents.")?.parse().ok()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |it| it.as_secs_f64())
}

/// Writes the event file of a log, in a folder of the run's name, and returns it.
///
/// A log has no clock: its steps follow on one another, and the last ends where the log was last written.
pub(crate) fn of_log(folder: &Path, run: &Recorded) -> Result<PathBuf, UserError> {
    let name_of_run = fs::canonicalize(&run.path).ok().and_then(|it| Some(it.file_name()?.to_owned()));
    let folder = folder.join(name_of_run.unwrap_or_else(|| "run".into()));
    let modified = log_files(&run.path).last().and_then(|it| fs::metadata(it).ok()?.modified().ok());
    let end = modified.and_then(|it| Some(it.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())).unwrap_or_else(now);
    let seconds = |event: &Event| match event {
        Event::StepDone(it) => it.seconds,
        Event::Validated(it) => it.seconds,
        _ => 0.0,
    };
    let (mut time, mut records) = (end - run.history.seconds_of_work(), TensorBoard::default());
    // The same name each time, so that a later report takes the place of an earlier one.
    let path = folder.join(name(0));
    let failed = |error: &io::Error| cannot_write(&path, error);
    fs::create_dir_all(&folder).map_err(|it| failed(&it))?;
    let mut file = BufWriter::new(WholeFile::create(&path).map_err(|it| failed(&it))?);
    let mut written = Ok(());
    let read = read_log_with(&run.path, &mut |event| {
        time += seconds(&event);
        if written.is_ok() {
            written = file.write_all(records.hear(&event, time));
        }
    });
    read.map_err(|error| user_error(error.to_string()))?;
    written.and_then(|()| file.into_inner()?.finish()).map_err(|it| failed(&it))?;
    Ok(path)
}
