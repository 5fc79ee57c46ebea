//! Whole runs with planned batches against runs with batches drawn at random.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Instant;

use plimsoll_plan::RealSteps;
use plimsoll_predict::{Keys, PartReading};
use plimsoll_probe::{DeviceKind, open};
use plimsoll_proof::end_to_end::{Certified, Division, Learning, Measured, Method, Ran, Report, Rule, Turn, certify};
use plimsoll_proof::sampler::process_time;
use plimsoll_sampler::{CapacityRule, PackConfig, PackPlanner, Permutation, SampleIndex, StepSize, edges};
use plimsoll_train::{Job, Lengths, Source, Trials, open_device, small_batch_regime};
use plimsoll_types::{Bytes, StepShape};
use plimsoll_workloads::text::{Corpus, GptConfig, Text};

use crate::ahead::{self, Filled};
use crate::{Failed, jobs, publish, whole};

/// The device that every machine has, and whose peaks are exact.
const DEVICE: DeviceKind = DeviceKind::Flex;

/// Edges of planned batches: with half of them, some 3 to 4 % more of all positions are padding.
const N_EDGES: u32 = 24;

/// Batches that a step of a run has at least, unless told otherwise.
const BATCHES_PER_STEP: u32 = 4;

/// Samples of the longest length that the capacity has room for.
const FIXED: u32 = 8;

/// The share of the capacity that a step may use, as in a run unless told otherwise.
const TARGET: f64 = 0.9;

/// Steps of a trial: the last one is in the steady state.
const STEPS_OF_A_TRIAL: usize = 3;

/// Shapes that are tried at most.
const MOST_TRIALS: u32 = 12;

/// Each method runs at least so long, in whole epochs.
const LEAST_SECONDS: f64 = 30.0;

/// Of data with more positions a random part is an epoch, so that a slow model takes a minute or so for one.
const MOST_POSITIONS: u64 = 1 << 18;

/// `proof end-to-end`.
pub(crate) fn command(out: &Path, text: &Path, recordings: &Path) -> Result<(), Failed> {
    let mut report = Report::default();
    let (frames, corpus) = (jobs::sequence(recordings)?, jobs::corpus(text)?);
    let tokens = Text::new(GptConfig::default(), Arc::clone(&corpus));
    let arranged = arranged(corpus)?;
    report.append(Compared { job: &frames, unit: "frames", size: StepSize::Samples(32) }.measure()?);
    report.append(Compared { job: &arranged, unit: "tokens", size: StepSize::Positions(1 << 12) }.measure()?);
    report.append(whole::compare(&frames, recordings, "frames")?);
    report.append(whole::compare(&tokens, text, "tokens")?);
    publish::publish(out, &serde_json::to_string_pretty(&report)?)?;
    println!("{}", out.display());
    Ok(())
}

/// Packs sections or pads them, as a run on a CPU does.
fn arranged(corpus: Arc<Corpus>) -> Result<Text, Failed> {
    let index = corpus.train.index();
    let (lengths, [longest]) = (index.iter().map(|[length]| length).collect::<Vec<_>>(), index.longest());
    let rows = PackPlanner::try_new(index.clone(), PackConfig::new(longest))?;
    let is_packed = rows.is_fuller_than(&edges(&lengths, N_EDGES, 1)?.edges);
    let model = GptConfig::default();
    Ok(if is_packed { Text::packed(model, corpus, longest) } else { Text::new(model, corpus) })
}

/// A job whose batches are compared.
struct Compared<'a, J: Job> {
    job: &'a J,
    /// What its lengths count.
    unit: &'a str,
    /// What an optimizer step of a run takes, unless told otherwise.
    size: StepSize,
}

impl<J: Job> Compared<'_, J> {
    /// Learns how many samples fit, then lets all methods run.
    fn measure(&self) -> Result<Report, Failed> {
        let source = self.job.source();
        let all = jobs::lengths(&*source)?;
        let edges = edges(&all, N_EDGES, 1)?.edges;
        let longest = edges.last().copied().unwrap_or(1);
        // As in a run, they are resident when it begins.
        let buffers = ahead::buffers(&*source, self.largest(longest));
        let certified = self.certify(&edges)?;
        let division = self.division(&all, edges, certified.rule.clone())?;
        let capacity = Bytes::from_f64_ceil(certified.budget.as_f64() / TARGET);
        let measured = self.measured(&division, certified, capacity);
        let mut report = Report::default();
        report.add(measured, &self.epochs(&division, capacity, buffers)?);
        eprintln!("{report}");
        Ok(report)
    }

    /// Takes samples at random, as many as make an epoch.
    fn division(&self, lengths: &[u32], edges: Vec<u32>, rule: Rule) -> Result<Division, Failed> {
        let n_samples = lengths.len() as u64;
        let (order, mut sum) = (Permutation::new(n_samples, 0, 0), 0);
        let (mut ids, mut of_epoch) = (Vec::new(), Vec::new());
        for id in (0..n_samples).map(|at| order.at(at)) {
            let length = lengths[usize::try_from(id)?];
            sum += u64::from(length);
            if MOST_POSITIONS < sum {
                break;
            }
            ids.push(id);
            of_epoch.push(length);
        }
        let (index, batches_per_step) = (SampleIndex::try_new([of_epoch])?, BATCHES_PER_STEP);
        let is_packed = matches!(self.job.source().lengths(), Lengths::Packed { .. });
        Ok(Division { index, ids, rule, edges, is_packed, size: self.size, batches_per_step, seed: 0 })
    }

    fn measured(&self, division: &Division, certified: Certified, capacity: Bytes) -> Measured {
        let Division { ids, rule, edges, is_packed, size, .. } = division;
        Measured {
            job: self.job.name().to_owned(),
            program: self.job.program(),
            unit: self.unit.to_owned(),
            samples: ids.len(),
            longest: edges.last().copied().unwrap_or(0),
            edges: edges.clone(),
            is_packed: *is_packed,
            size: *size,
            batch_sizes: edges.iter().map(|edge| rule.capacity([*edge])).collect(),
            budget: certified.budget,
            capacity,
            trials: certified.tried,
        }
    }

    fn certify(&self, edges: &[u32]) -> Result<Certified, Failed> {
        let mut trials = Trials::try_new(self.job, open_device(DEVICE)?, Keys::default(), open(DEVICE, None)?)?;
        let smallest = small_batch_regime(DEVICE) + 1;
        let learning = Learning { edges: edges.to_vec(), fixed: FIXED, smallest, most: MOST_TRIALS };
        certify(&learning, |length| self.largest(length).samples, &mut |shape| steady(&mut trials, shape))
    }

    /// Returns how many samples of a length a step takes.
    fn largest(&self, length: u32) -> StepShape {
        let samples = match self.size {
            StepSize::Samples(n) => n,
            StepSize::Positions(n) => u32::try_from(n).unwrap_or(u32::MAX).div_ceil(length),
            StepSize::Batch => u32::MAX,
        };
        StepShape::new(samples, length)
    }

    /// Lets the methods take turns, and returns the epochs of each.
    fn epochs(
        &self,
        division: &Division,
        capacity: Bytes,
        buffers: Vec<<J::Source as Source>::Buffer>,
    ) -> Result<Vec<Vec<Ran>>, Failed> {
        let mut trials =
            Trials::try_new(self.job, open_device(DEVICE)?, Keys::default(), open(DEVICE, Some(capacity))?)?;
        let (source, unit) = (self.job.source(), self.job.unit());
        let draws = division.schedule()?.flat_map(ahead::draws);
        let ((give, free), (filled, ready)) = (channel(), sync_channel(buffers.len()));
        buffers.into_iter().try_for_each(|buffer| give.send(buffer)).map_err(|_| "start a worker")?;
        thread::scope(|scope| {
            scope.spawn(move || ahead::work((&*source, unit), draws, &free, &filled));
            // Owned here, so that the worker ends when nobody wants its steps.
            let (give, ready) = (give, ready);
            take_turns(division, &mut || {
                let Filled { draw, units, buffer } = ready.recv()??;
                let ran = trials.step(&draw, units, &buffer, u32::MAX)?;
                give.send(buffer).map_err(|_| "keep the worker")?;
                Ok(ran.failures.len() as u64 + u64::from(capacity < ran.trial.peak))
            })
        })
    }
}

/// Runs steps of two micro-batches of a shape, since what is accumulated takes memory too, and returns what the last
/// showed.
fn steady<J: Job>(trials: &mut Trials<'_, J>, shape: StepShape) -> Result<PartReading, Failed> {
    for _ in 1..STEPS_OF_A_TRIAL {
        trials.train(shape, 2 * shape.samples)?;
    }
    Ok(trials.train(shape, 2 * shape.samples)?.part)
}

/// Runs the next step, and returns how often there was not enough memory.
type Step<'a> = &'a mut dyn FnMut() -> Result<u64, Failed>;

/// Runs every step in turn, in whole epochs.
fn take_turns(division: &Division, step: Step<'_>) -> Result<Vec<Vec<Ran>>, Failed> {
    let mut turns = division.schedule()?;
    // What a program does once, such as growing its heap, is not measured.
    turns.by_ref().take(Method::ALL.len()).try_for_each(|turn| run(&turn, step).map(drop))?;
    let mut epochs = vec![Vec::new(); Method::ALL.len()];
    for turn in turns {
        let begun = usize::try_from(turn.epoch)? + 1;
        let seconds = |epochs: &Vec<Ran>| epochs.iter().map(|it| it.seconds).sum::<f64>();
        let is_new = epochs.iter().all(|it| it.len() < begun);
        if is_new && epochs.iter().all(|it| LEAST_SECONDS <= seconds(it)) {
            break;
        }
        let of_method = &mut epochs[turn.method as usize];
        of_method.resize(begun, Ran::default());
        of_method[begun - 1] += run(&turn, step)?;
    }
    Ok(epochs)
}

fn run(turn: &Turn, step: Step<'_>) -> Result<Ran, Failed> {
    let (start, cpu, mut oom) = (Instant::now(), process_time(), 0);
    for _ in &turn.steps {
        oom += step()?;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), process_time().saturating_sub(cpu));
    let batches = turn.steps.iter().map(|step| step.len() as u64).sum();
    let Turn { units, padded, .. } = *turn;
    Ok(Ran { units, padded, batches, oom, seconds, cpu_seconds: cpu.as_secs_f64() })
}
