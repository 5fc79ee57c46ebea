//! The samples of a folder, divided into training, validation and test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plimsoll_sampler::AdmitCounts;
use plimsoll_train::BadSample;
use plimsoll_types::Extent;

use super::album::Album;
use super::error::DataError;
use super::lines::{Asks, LIST, Line, parse};
use super::sample::{Sample, Shown};
use super::samples_config::SamplesConfig;
use super::scarce::Scarce;
use super::signature::Signature;
use super::sizes::Sizes;
use super::split::{For, Split};
use super::tasks::{MOST_TASKS, Task, number, tasks_of};
use super::words::Words;
use crate::checksum::Checksum;
use crate::listed::Lines;
use crate::outside::{Gate, Outside, also_told};
use crate::store::Stored;
use crate::survey::{Survey, counted};
use crate::watch::{Watch, tell, unwatched};

/// What some editors write before the first line.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The samples of a folder; decoded pixels lie in a file.
#[derive(Debug)]
pub struct Samples {
    /// Samples to train on, in the order of their lines.
    pub train: Vec<Sample>,
    /// Samples of images that are held out to validate on.
    pub validation: Vec<Sample>,
    /// Samples of images that are held out to test on.
    pub test: Vec<Sample>,
    /// The subjects, in alphabetical order.
    pub subjects: Vec<String>,
    /// Samples that are left out or cut for the number of their images.
    pub outside: AdmitCounts,
    /// Lines that were left out, each with the reason.
    pub skipped: Vec<String>,
    tasks: Vec<Task>,
    /// The images of each subject that are trained on.
    pools: Vec<Vec<Stored>>,
    words: Words,
    max_words: u32,
    album: Album,
}

impl Samples {
    /// Reads the list, decodes every image that it names, and divides the samples.
    ///
    /// # Errors
    ///
    /// [`DataError`] names the file, the line and what would be right.
    pub fn read(config: &SamplesConfig) -> Result<Self, DataError> {
        Self::read_watched(config, &mut unwatched)
    }

    /// As [`Self::read`], for someone who wants to know how many bytes of the list are done.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], and [`DataError::Interrupted`].
    pub fn read_watched(config: &SamplesConfig, watch: Watch<'_>) -> Result<Self, DataError> {
        Self::read_into(Album::create(config), config, watch)
    }

    /// Reads the list and the heads of the images that it names, and decodes none of them; says also of which subject there
    /// are too few.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read_watched`] that show before anything is decoded.
    pub fn survey(config: &SamplesConfig, watch: Watch<'_>) -> Result<(Survey, Option<Scarce>), DataError> {
        let samples = Self::read_into(Album::of_heads(config), config, watch)?;
        let all = || samples.train.iter().chain(&samples.validation).chain(&samples.test);
        let subjects = all().flat_map(|it| &it.groups).map(|it| samples.subjects[it.subject].clone());
        let scarce = samples.scarce();
        let survey = Survey {
            samples: "samples",
            n_train: samples.train.len(),
            n_validation: samples.validation.len(),
            n_test: samples.test.len(),
            unit: "images",
            lengths: samples.train.iter().map(|it| u64::from(it.n_images())).collect(),
            kinds: vec![
                ("tasks", counted(all().map(|it| samples.tasks[usize::from(it.task)].name.clone()))),
                ("subjects", counted(subjects)),
            ],
            outside: samples.outside,
            skipped: samples.skipped,
        };
        Ok((survey, scarce))
    }

    fn read_into(album: std::io::Result<Album>, config: &SamplesConfig, watch: Watch<'_>) -> Result<Self, DataError> {
        let store_error = |source| DataError::Store { folder: config.room.store.folder.clone(), source };
        let list = config.folder.join(LIST);
        let (mut lines, mut skipped) = (Vec::new(), Vec::new());
        let mut album = album.map_err(store_error)?;
        let (mut listed, mut number, mut n_done, mut known) = (open(config)?, 0, 0, Known::default());
        let n_bytes = listed.n_bytes();
        let io_error = |source| DataError::Io { path: config.folder.join(LIST), source };
        while let Some((n_read, text)) = listed.next().map_err(io_error)? {
            tell(watch, n_done, n_bytes)?;
            (number, n_done) = (number + 1, n_read);
            let line = match text {
                Ok(text) if text.trim_ascii().is_empty() => continue,
                Ok(text) => usable(without_mark(text, number), number, &mut known, &mut album).map_err(store_error)?,
                Err(reason) => Err(reason),
            };
            match (line, config.bad_sample) {
                (Ok(line), _) => lines.push((number, line)),
                (Err(reason), BadSample::Skip) => skipped.push(format!("{LIST}, line {number}: {reason}")),
                (Err(reason), BadSample::Fail) => return Err(DataError::Line { path: list, line: number, reason }),
            }
        }
        let samples = Self::divide(&lines, album, config)?;
        samples.check(&lines, &list)?;
        Ok(Self { skipped, ..samples })
    }

    fn divide(lines: &[(usize, Line)], album: Album, config: &SamplesConfig) -> Result<Self, Outside> {
        let subjects = lines.iter().flat_map(|(_, line)| &line.groups).map(|group| group.subject.clone());
        let subjects = Vec::from_iter(subjects.collect::<BTreeSet<_>>());
        let tasks = tasks_of(lines, &subjects);
        let split = Split::new(lines, config.shares, &subjects, &album);
        let trained = lines.iter().map(|(_, line)| line).filter(|line| split.groups(line, For::Training).is_some());
        let words = Words::of(&trained.collect::<Vec<_>>());
        let part = |what: For| {
            let of = |(line_number, line): &(usize, Line)| {
                let (groups, task) = (split.groups(line, what)?, number(&tasks, &line.task)?);
                let answer = tasks[usize::from(task)].answer(line);
                let tokens = words.ids(line.asks, &line.text, config.max_words as usize);
                Some(Sample { task, line: *line_number, groups, answer, tokens })
            };
            lines.iter().filter_map(of).collect::<Vec<_>>()
        };
        let mut gate = Gate::new(config.lengths, "images");
        let mut admitted = |what| {
            let samples = part(what).into_iter().filter_map(|it| it.admitted(&mut gate).transpose());
            samples.collect::<Result<Vec<_>, _>>()
        };
        let (train, validation, test) = (admitted(For::Training)?, admitted(For::Validation)?, admitted(For::Test)?);
        let (pools, max_words) = (split.pools(lines), config.max_words);
        let (outside, skipped) = (gate.counts, Vec::new());
        Ok(Self { train, validation, test, subjects, outside, skipped, tasks, pools, words, max_words, album })
    }

    /// Whether there is something to learn and to measure for every task that there is.
    fn check(&self, lines: &[(usize, Line)], list: &Path) -> Result<(), DataError> {
        let path = list.to_owned();
        if lines.is_empty() {
            return Err(DataError::NoLines { path });
        }
        for (number, task) in (0..).zip(&self.tasks) {
            let lines = lines.iter().filter(|(_, line)| line.task == task.name).count();
            let [train, held_out] =
                [&self.train, &self.validation].map(|it| it.iter().filter(|it| it.task == number).count());
            let name = task.name.clone();
            match &task.answers[..] {
                [label] if task.asks == Asks::Label => {
                    return Err(DataError::OneLabel { path, task: name, label: label.clone() });
                }
                _ if train == 0 || held_out == 0 => {
                    let outside = also_told(&self.outside);
                    return Err(DataError::NoSamples { path, task: name, lines, train, held_out, outside });
                }
                _ => (),
            }
        }
        let asks_for_subjects = self.tasks.iter().any(|it| it.asks == Asks::Subject);
        match self.subjects.len() {
            found @ 0..2 if asks_for_subjects => Err(DataError::OneSubject { path, found }),
            _ => Ok(()),
        }
    }

    /// Returns the subject of which there are the fewest images to train on, where those are too few.
    pub fn scarce(&self) -> Option<Scarce> {
        Scarce::of(&self.subjects, &self.pools)
    }

    /// Returns the tasks that there are, in the order of their numbers.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns what is asked of a sample.
    pub(crate) fn asks(&self, sample: &Sample) -> Asks {
        self.tasks[usize::from(sample.task)].asks
    }

    /// Returns the number of token ids.
    pub(crate) fn n_words(&self) -> usize {
        self.words.n_ids()
    }

    /// Returns what all batches have in common.
    pub(crate) fn sizes(&self) -> Sizes {
        let (image, words) = (self.album.fit(), self.max_words as usize);
        Sizes { image, words, outputs: self.tasks.iter().map(|it| it.answers.len()).collect() }
    }

    /// Returns what a model that learns from them takes and gives.
    pub fn signature(&self) -> Signature {
        Signature::new(&self.sizes(), &self.tasks, self.words.clone(), &self.train)
    }

    /// Returns what a validation and the test pad to: the images of each group of samples that have as many, with the most
    /// words of any of them, and the longest side.
    pub fn held_out_extents(&self) -> Vec<Extent> {
        let mut extents = BTreeMap::<u32, Extent>::new();
        for sample in self.validation.iter().chain(&self.test) {
            let own = self.extent(sample);
            extents.entry(sample.n_images()).and_modify(|it| *it = it.joined(own)).or_insert(own);
        }
        extents.into_values().collect()
    }

    /// Returns the images and the words of a sample as it is, and where images keep their shapes, the longest side.
    pub(crate) fn extent(&self, sample: &Sample) -> Extent {
        let side = sample.groups.iter().flat_map(|it| &it.images).map(Stored::side).max();
        self.album.fit().extent(sample.n_images(), sample.n_words(), side.unwrap_or(1))
    }

    /// Returns the same of each sample that is trained on, as large as it may become: its images are drawn anew for every epoch.
    pub(crate) fn trained_extents(&self) -> Vec<Extent> {
        let longest = |images: &[Stored]| images.iter().map(Stored::side).max().unwrap_or(1);
        let of_subjects: Vec<_> = self.pools.iter().map(|pool| longest(pool)).collect();
        let extent = |sample: &Sample| {
            let of_group =
                |it: &Shown| if self.draws_anew(sample) { of_subjects[it.subject] } else { longest(&it.images) };
            let side = sample.groups.iter().map(of_group).max();
            self.album.fit().extent(sample.n_images(), sample.n_words(), side.unwrap_or(1))
        };
        self.train.iter().map(extent).collect()
    }

    /// Whether a sample trains with other images of its subjects: a label is that of its own, and not of others.
    pub(crate) fn draws_anew(&self, sample: &Sample) -> bool {
        self.asks(sample) != Asks::Label
    }

    /// Returns the images of a subject that are trained on.
    pub(crate) fn pool(&self, subject: usize) -> &[Stored] {
        &self.pools[subject]
    }

    /// Returns a number that differs, but for chance, when other lines or texts are trained on, or for a model that
    /// takes or gives something else.
    pub(crate) fn checksum(&self) -> u64 {
        let mut checksum = Checksum::new();
        checksum.text(&self.signature().to_json());
        for Sample { task, line, groups, answer, tokens } in &self.train {
            checksum.number(u64::from(*task));
            checksum.number(*line as u64);
            checksum.number(*answer as u64);
            for Shown { subject, images } in groups {
                checksum.number(*subject as u64);
                checksum.number(images.len() as u64);
            }
            for token in tokens {
                checksum.number(u64::from(*token));
            }
        }
        checksum.finish()
    }

    pub(crate) fn album(&self) -> &Album {
        &self.album
    }
}

fn open(config: &SamplesConfig) -> Result<Lines, DataError> {
    if !config.folder.is_dir() {
        return Err(DataError::NoFolder(config.folder.clone()));
    }
    let path = config.folder.join(LIST);
    Lines::open(&path).map_err(|source| DataError::Io { path, source })
}

/// Returns a line without what some editors write before the first.
pub(crate) fn without_mark(line: &[u8], number: usize) -> &[u8] {
    let mark = if number == 1 { BYTE_ORDER_MARK } else { &[] };
    line.strip_prefix(mark).unwrap_or(line)
}

/// What each task asks, and the line that said so first.
type Known = BTreeMap<String, (Asks, usize)>;

/// Understands a line and decodes its images, or says what is wrong.
fn usable(text: &[u8], number: usize, known: &mut Known, album: &mut Album) -> std::io::Result<Result<Line, String>> {
    let line = match parse(text).and_then(|line| like_others(line, known)) {
        Ok(line) => line,
        Err(reason) => return Ok(Err(reason)),
    };
    for name in line.groups.iter().flat_map(|group| &group.images) {
        if let Err(reason) = album.add(name)? {
            return Ok(Err(reason));
        }
    }
    known.entry(line.task.clone()).or_insert((line.asks, number));
    Ok(Ok(line))
}

/// Refuses a line that asks something else than others of its task, and a task too many.
fn like_others(line: Line, known: &Known) -> Result<Line, String> {
    match known.get(&line.task) {
        Some((asks, first)) if *asks != line.asks => {
            Err(format!("it asks {}, and line {first} of the same task `{}` asks {asks}", line.asks, line.task))
        }
        None if MOST_TASKS <= known.len() => {
            Err(format!("`{}` is one task more than the {MOST_TASKS} that a model may have", line.task))
        }
        _ => Ok(line),
    }
}
