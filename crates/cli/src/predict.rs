//! `plimsoll predict`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_probe::Probe;
use plimsoll_train::BlankForward;
use plimsoll_types::{Bytes, Extent};
use plimsoll_workloads::{multitask, sequence};

use crate::args::PredictArgs;
use crate::beat::Beat;
use crate::exit::{UserError, user_error};
use crate::harness::Harness;
use crate::jobs::SIGNATURE_FILE;
use crate::settings::Settings;
use crate::trained::{self, Files, Forward, in_batches};
use crate::values::JobName;

/// What is asked of a model, item by item.
trait Asked {
    /// What the items are called.
    fn items(&self) -> &'static str;

    /// Returns the extent of each item.
    fn extents(&self) -> Vec<Extent>;

    /// Returns what reading the largest file holds on the host, where that is much.
    fn needed(&self) -> Bytes;

    /// Returns what is asked.
    fn model(&self) -> &dyn BlankForward;

    /// Returns how probable each label is for each of these items.
    fn probabilities(&self, items: &[usize]) -> anyhow::Result<Vec<Vec<f32>>>;

    /// Returns what the item is printed as.
    fn name(&self, item: usize) -> String;

    /// Returns the labels of the item, in the order of their probabilities.
    fn labels(&self, item: usize) -> Vec<&str>;
}

pub(crate) fn run(args: &PredictArgs, harness: &dyn Harness) -> anyhow::Result<ExitCode> {
    let jobs = [JobName::Sequence, JobName::Multitask];
    let wanted = "`sequence` or `multitask`, whose models name what they are shown";
    let settings = trained::settings(&args.run, args.place.flags(), &jobs, wanted)?;
    let signature = trained::file(&args.run, SIGNATURE_FILE, settings.job)?;
    let spoilt = |reason| user_error(format!("read {}: {reason}", args.run.join(SIGNATURE_FILE).display()));
    if settings.job == JobName::Sequence {
        let signature = sequence::Signature::from_json(&signature).map_err(spoilt)?;
        let (mut probe, model) =
            trained::open((&args.run, args.place.best), harness, &settings, |checkpoint, device| {
                sequence::Classifier::open(settings.sequence().model, signature, checkpoint, device)
            })?;
        answer(args, harness, &settings, &mut *probe, &Recordings::look(model, &args.files)?)
    } else {
        let signature = multitask::Signature::from_json(&signature).map_err(spoilt)?;
        let questions = multitask::Question::all(&args.files, &signature).map_err(user_error)?;
        let (mut probe, model) =
            trained::open((&args.run, args.place.best), harness, &settings, |checkpoint, device| {
                multitask::Recognizer::open(settings.multitask(), signature, checkpoint, device)
            })?;
        answer(args, harness, &settings, &mut *probe, &Questions { model, questions })
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
    let (items, lengths) = (asked.items(), asked.extents());
    let extent = lengths.iter().copied().reduce(Extent::joined).unwrap_or(Extent::new(1));
    let files = Files { what: "predict: to read the largest file".to_owned(), needed: asked.needed() };
    let forward = Forward { harness, settings, items, extent, model: asked.model(), files };
    let batch = forward.at_once(args.batch_size, lengths.len(), probe)?;
    let (mut highest, mut n_printed) = (Bytes::ZERO, 0);
    let run = |chunk: &[usize]| {
        let found = asked.probabilities(chunk)?;
        chunk.iter().zip(&found).try_for_each(|(at, it)| numbers(&asked.name(*at), it))?;
        Ok(found)
    };
    // In the order of the arguments, as soon as those before are there: what fails later loses nothing.
    let on_done = |_, peak, found: &[Option<Vec<f32>>]| {
        highest = peak;
        while let Some(Some(probabilities)) = found.get(n_printed) {
            println!("{}{}", plain(&asked.name(n_printed)), best(&asked.labels(n_printed), probabilities, args.top));
            n_printed += 1;
        }
    };
    let found = in_batches(probe, (items, "predicting"), (&lengths, batch), run, on_done)?;
    eprintln!("predicted   {} {items}, {batch} at a time, peak {highest}", found.len());
    Ok(ExitCode::SUCCESS)
}

/// Refuses what is no probability.
fn numbers(name: &str, probabilities: &[f32]) -> Result<(), UserError> {
    let is_number = probabilities.iter().all(|it| it.is_finite());
    let wanted = "its weights, or the values of the file, are too large: train with a lower `train.learning_rate`";
    is_number.then_some(()).ok_or_else(|| user_error(format!("predict {name}: the model gives no numbers: {wanted}")))
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
        let beat = Beat::start("looking");
        let lengths = files.iter().enumerate().map(|(n_done, path)| {
            beat.at("files", n_done, files.len());
            look(path)
        });
        let lengths = lengths.collect::<Result<_, _>>()?;
        drop(beat);
        Ok(Self { model, files, lengths })
    }
}

impl Asked for Recordings<'_> {
    fn items(&self) -> &'static str {
        "files"
    }

    fn extents(&self) -> Vec<Extent> {
        self.lengths.iter().map(|it| Extent::new(*it)).collect()
    }

    fn needed(&self) -> Bytes {
        Bytes::ZERO
    }

    fn model(&self) -> &dyn BlankForward {
        &self.model
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

    fn extents(&self) -> Vec<Extent> {
        self.questions.iter().map(|it| it.extent(self.model.signature())).collect()
    }

    fn needed(&self) -> Bytes {
        self.questions.iter().map(|it| it.needed(self.model.signature())).max().unwrap_or_default()
    }

    fn model(&self) -> &dyn BlankForward {
        &self.model
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
