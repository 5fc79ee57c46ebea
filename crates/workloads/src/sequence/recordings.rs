//! A folder of recordings, split into training, validation and test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plimsoll_sampler::{AdmitCounts, Oversize};
use plimsoll_train::{BadSample, NamedSource};

use super::config::RecordingsConfig;
use super::division::divided;
use super::fault::{DataError, Fault};
use super::form::{Form, Seen};
use super::frames::Frames;
use super::kept::KeptFrames;
use super::labels::{self, Row};
use super::recording::{Recording, by_length};
use super::signature::Signature;
use crate::checksum::Checksum;
use crate::outside::{Gate, Outside, also_told, cut_at};
use crate::split::Divided;
use crate::survey::{Survey, counted};
use crate::watch::{Watch, tell, unwatched};

/// The recordings of a folder: what they are; what they hold stays on disk, and so do the frames that are made of it.
pub struct Recordings {
    /// The labels, in the order of the model's outputs.
    pub classes: Vec<String>,
    /// Recordings to train on, by source, by class and in the order of `labels.csv`.
    pub train: Vec<Recording>,
    /// Recordings that are held out to validate on, shortest first.
    pub validation: Vec<Recording>,
    /// Recordings that are held out to test on, shortest first.
    pub test: Vec<Recording>,
    /// Lines and files that were left out, each with the reason.
    pub skipped: Vec<String>,
    /// Recordings that are left out or cut for their lengths.
    pub outside: AdmitCounts,
    /// What the recordings to train on come from, in their order, where `labels.csv` says so: by name, in alphabetical order.
    pub sources: Vec<NamedSource>,
    /// The column of the groups of which each lies in one part, where there are such.
    pub group_column: Option<String>,
    /// The column of the groups of which each comes in one step, where there are such.
    pub together_column: Option<String>,
    folder: PathBuf,
    form: Form,
    /// The frames that are read of a recording at most.
    longest: u32,
    bad_sample: BadSample,
    kept: Option<KeptFrames>,
}

impl Recordings {
    /// Reads `labels.csv` and looks at every file that it names.
    ///
    /// # Errors
    ///
    /// [`DataError`] names the file, the line and what would be right.
    pub fn read(config: &RecordingsConfig) -> Result<Self, DataError> {
        Self::read_watched(config, &mut unwatched)
    }

    /// As [`Self::read`], for someone who wants to know how many files are done.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and [`DataError::Interrupted`].
    pub fn read_watched(config: &RecordingsConfig, watch: Watch<'_>) -> Result<Self, DataError> {
        let labels = labels::read(config)?;
        let lines = labels.rows.len() + labels.skipped.len();
        let sources = sources(&labels.rows, config)?;
        let mut scan = Scan::new(config, labels.skipped);
        let rows = labels.rows.into_iter().map(|row| (row, ())).collect();
        let seen = scan.sift(rows, |path, ()| Seen::look(path), watch)?;
        let form = Form::of(&seen.iter().map(|(_, seen)| *seen).collect::<Vec<_>>());
        let (whole, mut gate) =
            (scan.sift(seen, |_, seen| form.n_frames(seen), watch)?, Gate::new(config.lengths, form.unit()));
        gate.counts.empty += scan.n_empty;
        let found: Vec<_> =
            whole.into_iter().filter_map(|found| passed(&mut gate, found).transpose()).collect::<Result<_, _>>()?;
        let names: BTreeSet<_> = found.iter().map(|(row, _)| row.label.clone()).collect();
        let (usable, labels, folder) = (found.len(), names.len(), config.folder.clone());
        let classes = if config.classes.is_empty() { names.into_iter().collect() } else { config.classes.clone() };
        let Divided { train, validation, test } = divided(found, (&classes, &sources), config)?;
        if labels < 2 || validation.is_empty() {
            return Err(DataError::TooFew { folder, usable, lines, labels, outside: also_told(&gate.counts) });
        }
        check_weights(&train, config)?;
        let (skipped, bad_sample, group_column) = (scan.skipped, config.bad_sample, config.group_column.clone());
        let (outside, longest) = (gate.counts, cut_at(config.lengths));
        let n = train.len() + validation.len() + test.len();
        let kept = config.store.as_ref().and_then(|store| KeptFrames::try_new(store, n));
        Ok(Self {
            sources: counted_sources(sources, &train),
            classes,
            train,
            validation,
            test,
            skipped,
            outside,
            group_column,
            together_column: config.together_column.clone(),
            folder,
            form,
            longest,
            bad_sample,
            kept,
        })
    }

    /// Returns what a run sees of them.
    pub fn survey(&self) -> Survey {
        Survey {
            samples: "recordings",
            n_train: self.train.len(),
            n_validation: self.validation.len(),
            n_test: self.test.len(),
            unit: self.form.unit(),
            lengths: self.train.iter().map(|it| u64::from(it.n_frames)).collect(),
            kinds: self.kinds(),
            outside: self.outside,
            skipped: self.skipped.clone(),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, BTreeMap<String, usize>)> {
        let all = || self.train.iter().chain(self.all_held_out());
        let mut kinds = vec![("labels", counted(all().map(|it| self.classes[it.class].clone())))];
        if !self.sources.is_empty() {
            kinds.push(("sources", counted(all().map(|it| self.sources[usize::from(it.source)].name.clone()))));
        }
        kinds
    }

    /// Returns what a model that learns from them takes and gives.
    pub fn signature(&self) -> Signature {
        Signature::of(self.classes.clone(), &self.form, self.longest)
    }

    /// Returns how many values a frame has.
    pub fn n_values(&self) -> usize {
        self.form.n_values()
    }

    /// Returns the lengths that held-out recordings are padded to, shortest first.
    pub fn validation_edges(&self) -> Vec<u32> {
        let edges = [&self.validation, &self.test].into_iter().flat_map(|it| by_length(it)).map(|(edge, _)| edge);
        Vec::from_iter(edges.collect::<BTreeSet<_>>())
    }

    /// Returns the recordings that are held out, to validate or to test on.
    pub(crate) fn all_held_out(&self) -> impl Iterator<Item = &Recording> {
        self.validation.iter().chain(&self.test)
    }

    /// Returns the share of the held-out recordings whose label is the most frequent one in training.
    pub fn majority(&self) -> f64 {
        self.majority_of(&self.validation.iter().map(|it| it.class).collect::<Vec<_>>())
    }

    /// Returns the share of these labels that are the most frequent one in training.
    pub(crate) fn majority_of(&self, labels: &[usize]) -> f64 {
        let count = |class| self.train.iter().filter(|it| it.class == class).count();
        let most = (0..self.classes.len()).rev().max_by_key(|class| count(*class)).unwrap_or(0);
        labels.iter().filter(|it| **it == most).count() as f64 / labels.len() as f64
    }

    /// Whether recordings that cannot be used are left out.
    pub(crate) fn may_skip(&self) -> bool {
        self.bad_sample == BadSample::Skip
    }

    /// Reads a recording, as it is on disk now unless its frames are kept.
    pub(crate) fn frames(&self, recording: &Recording) -> Result<Frames, Fault> {
        let (number, n_values) = (recording.number, recording.n_frames as usize * self.n_values());
        let read = || self.form.read(&self.folder.join(&recording.name), self.longest);
        let values = match &self.kept {
            Some(kept) => kept.get_or_read(number, n_values, read)?,
            None => read()?,
        };
        Ok(Frames::new(values, self.n_values(), recording.class).of_source(recording.source))
    }

    /// Reads a recording that is held out, with a second try; `None` when it is to be left out.
    pub(crate) fn held_out(&self, recording: &Recording, edge: u32) -> Result<Option<Frames>, Fault> {
        let read = || match self.frames(recording) {
            Ok(frames) if edge < frames.length() => Err(Fault::Grown { found: frames.length(), most: edge }),
            read => read,
        };
        match read().or_else(|_| read()) {
            Ok(frames) => Ok(Some(frames)),
            Err(_) if self.bad_sample == BadSample::Skip => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Returns a number that differs, but for chance, when other recordings are trained on, or for a model that takes or
    /// gives something else.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        checksum.text(&self.signature().to_json());
        for NamedSource { name, n_samples } in &self.sources {
            checksum.text(name);
            checksum.number(*n_samples);
        }
        for Recording { name, class, n_frames, weight, .. } in &self.train {
            if let Some(weight) = weight {
                checksum.number(weight.to_bits());
            }
            checksum.text(name);
            checksum.number(*class as u64);
            checksum.number(u64::from(*n_frames));
        }
        checksum.finish()
    }
}

/// The most names of sources: as many as there are numbers for them.
const MOST_SOURCES: usize = 1 << 16;

/// Returns the names of all sources of a list, sorted; none where it does not say.
fn sources(rows: &[Row], config: &RecordingsConfig) -> Result<Vec<String>, DataError> {
    let names: BTreeSet<_> = rows.iter().filter_map(|row| row.source.as_ref()).collect();
    match &config.source_column {
        Some(column) if MOST_SOURCES < names.len() => {
            let (folder, column) = (config.folder.clone(), column.clone());
            Err(DataError::ManySources { folder, column, found: names.len(), most: MOST_SOURCES })
        }
        _ => Ok(names.into_iter().cloned().collect()),
    }
}

/// Refuses weights that draw nothing.
fn check_weights(train: &[Recording], config: &RecordingsConfig) -> Result<(), DataError> {
    let Some(column) = &config.weight_column else { return Ok(()) };
    let sum: f64 = train.iter().filter_map(|it| it.weight).sum();
    if 0.0 < sum && sum.is_finite() {
        return Ok(());
    }
    let (folder, column, recordings) = (config.folder.clone(), column.clone(), train.len());
    Err(DataError::Weights { folder, column, recordings, sum })
}

/// Counts the recordings of each source.
fn counted_sources(names: Vec<String>, recordings: &[Recording]) -> Vec<NamedSource> {
    let mut counts = vec![0; names.len()];
    for it in recordings {
        if let Some(n) = counts.get_mut(usize::from(it.source)) {
            *n += 1;
        }
    }
    names.into_iter().zip(counts).map(|(name, n_samples)| NamedSource { name, n_samples }).collect()
}

/// Lets a recording pass with the frames that it takes part with.
fn passed(gate: &mut Gate, (row, n_frames): (Row, u32)) -> Result<Option<(Row, u32)>, Outside> {
    let n_frames = gate.pass(n_frames, || row.path.clone())?;
    Ok(n_frames.map(|n| (row, n)))
}

/// The first look at every file.
struct Scan<'a> {
    folder: &'a Path,
    bad_sample: BadSample,
    skipped: Vec<String>,
    /// Whether files that hold nothing are counted, and no fault.
    skips_empty: bool,
    n_empty: u64,
}

impl<'a> Scan<'a> {
    fn new(config: &'a RecordingsConfig, skipped: Vec<String>) -> Self {
        let RecordingsConfig { folder, bad_sample, lengths, .. } = config;
        let skips_empty = lengths.too_short != Oversize::Refuse;
        Self { folder, bad_sample: *bad_sample, skipped, skips_empty, n_empty: 0 }
    }

    /// Keeps the rows that pass a look.
    fn sift<T, U>(
        &mut self,
        rows: Vec<(Row, T)>,
        look: impl Fn(&Path, T) -> Result<U, Fault>,
        watch: Watch<'_>,
    ) -> Result<Vec<(Row, U)>, DataError> {
        let n_rows = rows.len();
        let mut kept = Vec::with_capacity(n_rows);
        for (at, (row, known)) in rows.into_iter().enumerate() {
            tell(watch, at, n_rows)?;
            let path = self.folder.join(&row.path);
            match look(&path, known) {
                Ok(seen) => kept.push((row, seen)),
                Err(Fault::Empty(_)) if self.skips_empty => self.n_empty += 1,
                Err(fault) if self.bad_sample == BadSample::Skip => self.skipped.push(format!("{}: {fault}", row.path)),
                Err(fault) => return Err(DataError::File { path, fault }),
            }
        }
        Ok(kept)
    }
}
