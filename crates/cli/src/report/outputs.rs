//! What is made of a log: reports, metrics and pictures.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_files::{WholeFile, write_whole};
use plimsoll_monitor::{
    BatchMetrics, EpochMetrics, History, RunFacts, StepsCsv, Table, TrainingReport, memory_timeline, step_curves,
    task_comparison, training_curves,
};
use plimsoll_train::{CONFIG_FILE, Outcome, RunDir, RunDirError, read_log_with};
use plimsoll_types::Event;

use super::facts::{FACTS_FILE, to_json, with_others};

/// Bytes of rows that are written at once.
const BLOCK: usize = 64 << 10;

/// Writes what a run leaves behind, besides its log and its checkpoints, and returns the report.
pub(crate) fn of_run(run_dir: &RunDir, outcome: &Outcome, facts: RunFacts) -> Result<TrainingReport, RunDirError> {
    let out = run_dir.path();
    run_dir.write(FACTS_FILE, to_json(&facts).as_bytes())?;
    if let Some(overhead) = outcome.overhead {
        run_dir.write("overhead.json", overhead.to_json().as_bytes())?;
    }
    let (mut tables, mut history) = (Tables::begin(out, false)?, History::default());
    read_log_with(out, &mut |event| {
        history.hear(&event);
        tables.hear(&event);
    })?;
    tables.end()?;
    let config = fs::read_to_string(out.join(CONFIG_FILE)).unwrap_or_default();
    write(out, &history, &with_others(facts, out), &config)
}

/// Writes reports and pictures of a run into a folder, and returns the report.
pub(crate) fn write(
    folder: &Path,
    history: &History,
    facts: &RunFacts,
    config: &str,
) -> Result<TrainingReport, RunDirError> {
    let report = TrainingReport::new(history, facts.clone());
    for (name, content) in [
        ("training_report.json", report.to_json()),
        ("training_report.md", report.to_markdown()),
        ("training_report.html", report.to_html(history, facts, config)),
    ] {
        write_file(&folder.join(name), content.as_bytes())?;
    }
    let tasks = task_comparison(history).map(|plot| ("task_comparison", plot));
    let plots = [
        ("training_curves", training_curves(history)),
        ("step_curves", step_curves(history)),
        ("memory_timeline", memory_timeline(history, facts)),
    ];
    for (name, plot) in plots.into_iter().chain(tasks) {
        write_file(&folder.join(format!("{name}.svg")), plot.svg.as_bytes())?;
        write_file(&folder.join(format!("{name}.png")), &plot.png())?;
    }
    Ok(report)
}

/// The files that have a row for each step or epoch, written while the log is read.
pub(super) struct Tables(Vec<Growing>);

struct Growing {
    path: PathBuf,
    table: Box<dyn Table>,
    file: WholeFile,
    /// Rows that are not written yet.
    text: String,
    /// What went wrong first.
    failed: Option<RunDirError>,
}

impl Tables {
    /// Begins the files in a folder.
    pub(super) fn begin(folder: &Path, has_csv: bool) -> Result<Self, RunDirError> {
        let csv: Option<(_, Box<dyn Table>)> = has_csv.then(|| ("steps.csv", Box::<StepsCsv>::default() as _));
        let tables: [(_, Box<dyn Table>); 2] = [
            ("batch_metrics.json", Box::<BatchMetrics>::default()),
            ("epoch_metrics.json", Box::<EpochMetrics>::default()),
        ];
        let growing = |(name, table)| Growing::begin(folder.join(name), table);
        Ok(Self(tables.into_iter().chain(csv).map(growing).collect::<Result<_, _>>()?))
    }

    /// Adds what an event has to say; what goes wrong is told at the end.
    pub(super) fn hear(&mut self, event: &Event) {
        for it in self.0.iter_mut().filter(|it| it.failed.is_none()) {
            it.table.hear(event, &mut it.text);
            if BLOCK <= it.text.len() {
                it.failed = it.write().err();
            }
        }
    }

    /// Gives the files their names.
    pub(super) fn end(self) -> Result<(), RunDirError> {
        self.0.into_iter().try_for_each(Growing::end)
    }
}

impl Growing {
    fn begin(path: PathBuf, table: Box<dyn Table>) -> Result<Self, RunDirError> {
        let file = WholeFile::create(&path).map_err(|source| cannot_write(&path, source))?;
        Ok(Self { path, table, file, text: String::new(), failed: None })
    }

    fn write(&mut self) -> Result<(), RunDirError> {
        let written = self.file.write_all(self.text.as_bytes());
        self.text.clear();
        written.map_err(|source| cannot_write(&self.path, source))
    }

    fn end(mut self) -> Result<(), RunDirError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.table.end(&mut self.text);
        self.write()?;
        self.file.finish().map_err(|source| cannot_write(&self.path, source))
    }
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), RunDirError> {
    write_whole(path, content).map_err(|source| cannot_write(path, source))
}

fn cannot_write(path: &Path, source: std::io::Error) -> RunDirError {
    RunDirError::Io { action: "write", path: path.to_owned(), source }
}
