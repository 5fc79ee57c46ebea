//! Trainings by the product itself: at the line, beside others, and at other batch sizes.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use plimsoll_bench::proof::TrainedRow;
use plimsoll_monitor::decode;
use plimsoll_probe::{DeviceKind, nvidia};
use plimsoll_train::open_device;
use plimsoll_types::{Bytes, Event};

use crate::Failed;
use crate::order::{Reply, Task};
use crate::spawn::Place;

/// Each job with a capacity that its steps come up to on any device.
const AT_THE_LINE: [(&str, &str); 4] =
    [("sr", "64MiB"), ("sequence", "64MiB"), ("multitask", "64MiB"), ("text", "256MiB")];

/// Batch sizes beside the one that is chosen.
const SWEEP: [&str; 3] = ["1", "4", "16"];

/// Steps on a GPU, and on a software device.
const N_STEPS: [&str; 2] = ["500", "6"];

/// No run takes longer, planning included.
const LONGEST: Duration = Duration::from_secs(75);

/// How often a run is looked after.
const PERIOD: Duration = Duration::from_millis(20);

/// Steps after which others come.
const STEPS_BEFORE_OTHERS: usize = 3;

/// What others hold where no driver says what is free; they leave as much where one does.
const OTHERS: Bytes = Bytes::mib(256);

/// What others allocate at a time.
const CHUNK: usize = 1 << 24;

/// How long they stay.
const STAY: Duration = Duration::from_secs(3);

/// A training to be done.
struct Training<'a> {
    place: &'a Place,
    job: &'a str,
    capacity: &'a str,
    sets: Vec<String>,
    has_others: bool,
}

/// Trains every job at the line, then what else a device can be asked; says of what did not end why.
pub(crate) fn all(place: &Place, is_gpu: bool, note: &mut dyn FnMut(&str, &Failed)) -> Vec<TrainedRow> {
    let steps = N_STEPS[usize::from(!is_gpu)];
    let training = |(job, capacity): (&'static str, &'static str), set: &[&str], has_others| {
        let sets = set.iter().map(|it| (*it).to_owned()).collect();
        Training { place, job, capacity, sets, has_others }
    };
    let mut trainings: Vec<_> = AT_THE_LINE.iter().map(|it| training(*it, &[], false)).collect();
    trainings.push(training(("sr", "device"), &[], true));
    trainings.extend(AT_THE_LINE.iter().map(|it| training(*it, &["train.precision=\"bf16\""], false)));
    trainings.push(training(AT_THE_LINE[3], &["memory.gradient_checkpointing=\"on\""], false));
    let sweep = SWEEP.map(|it| format!("batch.batch_size={it}"));
    trainings.extend(sweep.iter().map(|it| training(AT_THE_LINE[0], &[it], false)));
    let done = trainings.iter().filter_map(|it| {
        let row = it.run(steps).inspect_err(|error| note(&it.what(), error)).ok()?;
        eprintln!("{row}");
        Some(row)
    });
    done.collect()
}

impl Training<'_> {
    fn what(&self) -> String {
        let sets = self.sets.iter().fold(String::new(), |what, it| what + ", " + it);
        let others = if self.has_others { ", others come and go" } else { "" };
        format!("{} under {}{sets}{others}", self.job, self.capacity)
    }

    /// Runs `plimsoll train`, which lies beside this program, and reads its log.
    fn run(&self, steps: &str) -> Result<TrainedRow, Failed> {
        let folder = tempfile::tempdir()?;
        let (out, said) = (folder.path().join("run"), folder.path().join("said"));
        let end = (Instant::now() + LONGEST).min(self.place.end.unwrap_or(Instant::now() + LONGEST));
        let mut command = self.command(&out, steps);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said)?).spawn()?;
        let others = |log: &Path| -> Result<(), Failed> {
            while Instant::now() < end && n_steps(log) < STEPS_BEFORE_OTHERS {
                thread::sleep(PERIOD);
            }
            let free = nvidia::device(0).ok().filter(|_| matches!(self.place.device, DeviceKind::Cuda(_)));
            let bytes = free.map_or(OTHERS, |it| it.free.saturating_sub(OTHERS));
            self.place.ask(Task::Hold { bytes }).map(drop)
        };
        let status = thread::scope(|scope| -> Result<_, Failed> {
            let log = out.join("events.jsonl");
            let beside = self.has_others.then(|| scope.spawn(move || others(&log).map_err(|it| it.to_string())));
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break Some(status),
                    None if end <= Instant::now() => {
                        child.kill()?;
                        child.wait()?;
                        break None;
                    }
                    None => thread::sleep(PERIOD),
                }
            };
            beside.map_or(Ok(Ok(())), ScopedJoinHandle::join).map_err(|_| "wait for others")??;
            Ok(status)
        })?;
        match status {
            None => return Err("end in time".into()),
            Some(status) if !status.success() => return Err(last_line(&said)?.into()),
            Some(_) => (),
        }
        let log = decode(&fs::read_to_string(out.join("events.jsonl"))?)?;
        Ok(TrainedRow::new(&self.what(), &log.events).ok_or("take a step")?)
    }

    fn command(&self, out: &Path, steps: &str) -> Command {
        let name = format!("plimsoll{}", std::env::consts::EXE_SUFFIX);
        let mut command = Command::new(std::env::current_exe().unwrap_or_default().with_file_name(name));
        command.args(["train", "--job", self.job, "--device", &self.place.device.to_string(), "--steps", steps]);
        command.args(["--no-supervise", "--capacity", self.capacity, "--out"]).arg(out);
        self.sets.iter().for_each(|it| {
            command.args(["--set", it]);
        });
        command
    }
}

/// Holds memory of a device for a while, in chunks, as another program does.
pub(crate) fn hold(device: DeviceKind, bytes: Bytes) -> Result<Reply, Failed> {
    let device = open_device(device)?.inner();
    let n_chunks = usize::try_from(bytes.0)? / (CHUNK * size_of::<f32>());
    let held: Vec<Tensor<1>> = (0..n_chunks).map(|_| Tensor::ones([CHUNK], &device)).collect();
    device.sync()?;
    thread::sleep(STAY);
    drop(held);
    Ok(Reply::Held)
}

fn n_steps(log: &Path) -> usize {
    let log = fs::read_to_string(log).ok().and_then(|text| decode(&text).ok());
    log.map_or(0, |it| it.events.iter().filter(|it| matches!(it, Event::StepDone(_))).count())
}

fn last_line(said: &Path) -> Result<String, Failed> {
    let mut text = String::new();
    File::open(said)?.read_to_string(&mut text)?;
    let last = text.lines().rfind(|it| it.starts_with("error: failed to ")).or_else(|| text.lines().last());
    Ok(last.unwrap_or("end in order").trim_start_matches("error: failed to ").to_owned())
}
