//! `plimsoll predict`.

use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_probe::{DeviceKind, Probe};
use plimsoll_train::{HostMemory, TrainError, open_device};
use plimsoll_types::Bytes;
use plimsoll_workloads::{multitask, sequence};

use crate::args::PredictArgs;
use crate::beat::Beat;
use crate::exit::{describe, user_error};
use crate::harness::Harness;
use crate::jobs::SIGNATURE_FILE;
use crate::loading::{held, host_memory};
use crate::prepare::open_probe;
use crate::settings::Settings;
use crate::trained::{self, Forward, in_batches};
use crate::values::JobName;
use crate::worker;

/// What is asked of a model, item by item.
trait Asked {
    /// What the items are called.
    fn items(&self) -> &'static str;

    /// Returns the length of each item.
    fn lengths(&self) -> Vec<u32>;

    /// Returns what reading the largest file holds on the host, where that is much.
    fn needed(&self) -> Bytes;

    /// Returns how many items fit at a time.
    fn at_once(
        &self,
        harness: &dyn Harness,
        settings: &Settings,
        asked: Option<u32>,
        probe: &mut dyn Probe,
    ) -> anyhow::Result<u32>;

    /// Returns how probable each label is for each of these items.
    fn probabilities(&self, items: &[usize]) -> anyhow::Result<Vec<Vec<f32>>>;

    fn name(&self, item: usize) -> String;

    fn labels(&self, item: usize) -> Vec<&str>;
}

pub(crate) fn run(args: &PredictArgs, harness: &dyn Harness) -> anyhow::Result<ExitCode> {
    let jobs = [JobName::Sequence, JobName::Multitask];
    let wanted = "`sequence` or `multitask`, whose models name what they are shown";
    let settings = trained::settings(&args.run, args.place.flags(), &jobs, wanted)?;
    let signature = trained::file(&args.run, SIGNATURE_FILE, settings.job)?;
    let spoilt = |reason| user_error(format!("read {}: {reason}", args.run.join(SIGNATURE_FILE).display()));
    // The probe starts the device, and says what is missing where it cannot.
    let beat = Beat::start("model");
    let mut probe = open_probe(harness, &settings)?;
    let device = open_device(settings.device, false).map_err(|error| user_error(describe(&error)))?;
    let checkpoint = trained::checkpoint(&args.run)?;
    if settings.job == JobName::Sequence {
        let signature = sequence::Signature::from_json(&signature).map_err(spoilt)?;
        let model = sequence::Classifier::open(settings.sequence().model, signature, &checkpoint, device);
        let recordings = Recordings::look(model.map_err(TrainError::from)?, &args.files)?;
        drop(beat);
        answer(args, harness, &settings, &mut *probe, &recordings)
    } else {
        let signature = multitask::Signature::from_json(&signature).map_err(spoilt)?;
        let questions = multitask::Question::all(&args.files, &signature).map_err(user_error)?;
        let model = multitask::Recognizer::open(settings.multitask(), signature, &checkpoint, device);
        let asked = Questions { model: model.map_err(TrainError::from)?, questions };
        drop(beat);
        answer(args, harness, &settings, &mut *probe, &asked)
    }
}

/// Answers all that is asked, and prints a line for each item.
fn answer(
    args: &PredictArgs,
    harness: &dyn Harness,
    settings: &Settings,
    probe: &mut dyn Probe,
    asked: &dyn Asked,
) -> anyhow::Result<ExitCode> {
    worker::say_refusals();
    probe.draw_line(None)?;
    let held = hold_what_files_take(settings, asked.needed(), probe)?;
    let batch = asked.at_once(harness, settings, args.batch_size, probe)?;
    drop(held);
    probe.draw_line(Some(Bytes::MAX))?;
    let (mut highest, mut n_printed, items) = (Bytes::ZERO, 0, asked.items());
    let mut printed = Ok(());
    let run = |chunk: &[usize]| asked.probabilities(chunk);
    // In the order of the arguments, as soon as those before are there: what fails later loses nothing.
    let on_done = |_, peak, found: &[Option<Vec<f32>>]| {
        highest = peak;
        while let Some(Some(probabilities)) = found.get(n_printed).filter(|_| printed.is_ok()) {
            let named = best(&asked.labels(n_printed), probabilities, args.top);
            printed = writeln!(stdout().lock(), "{}{named}", plain(&asked.name(n_printed)));
            n_printed += 1;
        }
    };
    let found = in_batches(probe, (items, "predicting"), (&asked.lengths(), batch), run, on_done)?;
    // Whoever reads may have enough.
    printed.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    eprintln!("predicted   {} {items}, {batch} at a time, peak {highest}", found.len());
    Ok(ExitCode::SUCCESS)
}

/// Returns a text of which nothing divides lines or columns.
fn plain(text: &str) -> String {
    text.replace(|it: char| it.is_control(), " ")
}

/// Names the most probable labels, the first of equals first, each with its probability.
fn best(labels: &[&str], probabilities: &[f32], top: u32) -> String {
    let mut order: Vec<_> = labels.iter().zip(probabilities).collect();
    order.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let shown = order.iter().take(top as usize);
    shown.fold(String::new(), |text, (label, probability)| format!("{text}\t{}\t{probability:.4}", plain(label)))
}

/// Refuses a file that takes too much to read, and returns memory that is as large as what the largest takes at most beside
/// the model, where both are in one memory.
fn hold_what_files_take(settings: &Settings, needed: Bytes, probe: &dyn Probe) -> anyhow::Result<Vec<u8>> {
    let is_one = settings.device == DeviceKind::Flex;
    let (memory, wanted) = match host_memory(settings, probe.capacity()?) {
        HostMemory::Capacity(capacity) => (capacity, "give more with `--capacity`"),
        HostMemory::BesideDevice(memory) => (memory, "the host has no more"),
    };
    let all = if is_one { probe.read()?.in_use } else { held() }.saturating_add(needed);
    if memory < all {
        let message = format!("predict: to read the largest file takes {all} in all, of {memory}: {wanted}");
        return Err(user_error(message).into());
    }
    Ok(if is_one { Vec::with_capacity(usize::try_from(needed.0).unwrap_or(usize::MAX)) } else { Vec::new() })
}

fn longest(asked: &dyn Asked) -> u32 {
    asked.lengths().into_iter().max().unwrap_or(1)
}

/// Recordings to tell apart.
struct Recordings<'a> {
    model: sequence::Classifier,
    files: &'a [PathBuf],
    lengths: Vec<u32>,
}

impl<'a> Recordings<'a> {
    /// Looks at every file before any is read.
    fn look(model: sequence::Classifier, files: &'a [PathBuf]) -> anyhow::Result<Self> {
        let look =
            |path: &PathBuf| model.look(path).map_err(|fault| user_error(format!("read {}: {fault}", path.display())));
        let lengths = files.iter().map(look).collect::<Result<_, _>>()?;
        Ok(Self { model, files, lengths })
    }
}

impl Asked for Recordings<'_> {
    fn items(&self) -> &'static str {
        "files"
    }

    fn lengths(&self) -> Vec<u32> {
        self.lengths.clone()
    }

    fn needed(&self) -> Bytes {
        Bytes::ZERO
    }

    fn at_once(
        &self,
        harness: &dyn Harness,
        settings: &Settings,
        asked: Option<u32>,
        probe: &mut dyn Probe,
    ) -> anyhow::Result<u32> {
        let blank = |shape| self.model.blank(shape);
        let forward = Forward { harness, settings, items: self.items(), edge: longest(self), blank: &blank };
        forward.at_once(asked, self.lengths().len(), probe)
    }

    fn probabilities(&self, items: &[usize]) -> anyhow::Result<Vec<Vec<f32>>> {
        let files: Vec<(&Path, u32)> = items.iter().map(|at| (&*self.files[*at], self.lengths[*at])).collect();
        self.model.probabilities(&files).map_err(|error| match error {
            sequence::ClassifyError::File(at, fault) => {
                user_error(format!("read {}: {fault}", files[at].0.display())).into()
            }
            error @ sequence::ClassifyError::Device { .. } => error.into(),
        })
    }

    fn name(&self, item: usize) -> String {
        self.files[item].display().to_string()
    }

    fn labels(&self, _item: usize) -> Vec<&str> {
        self.model.labels().iter().map(String::as_str).collect()
    }
}

/// Images and lists to answer.
struct Questions {
    model: multitask::Recognizer,
    questions: Vec<multitask::Question>,
}

impl Asked for Questions {
    fn items(&self) -> &'static str {
        "questions"
    }

    fn lengths(&self) -> Vec<u32> {
        self.questions.iter().map(multitask::Question::n_images).collect()
    }

    fn needed(&self) -> Bytes {
        self.questions.iter().map(|it| it.needed(self.model.signature())).max().unwrap_or_default()
    }

    fn at_once(
        &self,
        harness: &dyn Harness,
        settings: &Settings,
        asked: Option<u32>,
        probe: &mut dyn Probe,
    ) -> anyhow::Result<u32> {
        let blank = |shape| self.model.blank(shape);
        let forward = Forward { harness, settings, items: self.items(), edge: longest(self), blank: &blank };
        forward.at_once(asked, self.lengths().len(), probe)
    }

    fn probabilities(&self, items: &[usize]) -> anyhow::Result<Vec<Vec<f32>>> {
        let questions: Vec<_> = items.iter().map(|at| &self.questions[*at]).collect();
        self.model.probabilities(&questions).map_err(|error| match error {
            error @ multitask::RecognizeError::Image { .. } => user_error(error.to_string()).into(),
            error @ multitask::RecognizeError::Device { .. } => error.into(),
        })
    }

    fn name(&self, item: usize) -> String {
        self.questions[item].name.clone()
    }

    fn labels(&self, item: usize) -> Vec<&str> {
        self.model.signature().answers(self.questions[item].task)
    }
}
