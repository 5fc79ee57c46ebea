//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use lexopt::Error::Custom;
use lexopt::{Parser, ValueExt};
use plimsoll_probe::DeviceKind;
use plimsoll_proof::refused;

use crate::Failed;
use crate::jobs::JOBS;
use crate::order::Order;

pub(crate) const USAGE: &str = "write `predict OUT.json [--device DEVICE].. [--job JOB].. [--data FOLDER] [--cells N]`, \
                                `finder OUT.json [--device DEVICE]..`, \
                                `gpu-check FOLDER [--data FOLDER] [--seconds N]` or `end-to-end OUT.json \
                                TEXT RECORDINGS`";

/// Less than the nine minutes that a check of a GPU may take: a process is ended when its time is up.
const WHOLE: Duration = Duration::from_secs(8 * 60 + 30);

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Child(Order),
    Predict(Request),
    Finder { out: PathBuf, devices: Vec<DeviceKind> },
    GpuCheck { folder: PathBuf, data: Option<PathBuf>, whole: Duration },
    EndToEnd { out: PathBuf, text: PathBuf, recordings: PathBuf },
}

/// What is planned and run.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) out: PathBuf,
    pub(crate) devices: Vec<DeviceKind>,
    pub(crate) jobs: Vec<&'static str>,
    /// A folder with a folder of data for each job that needs one.
    pub(crate) data: Option<PathBuf>,
    /// Cells of each job on each device, with and without gradient checkpointing each.
    pub(crate) cells: usize,
}

impl Command {
    pub(crate) fn parse(args: Parser) -> Result<Self, Failed> {
        Ok(Self::read(args).map_err(|error| refused(&error, USAGE))?)
    }

    fn read(mut args: Parser) -> Result<Self, lexopt::Error> {
        let (mut words, mut devices, mut jobs, mut data, mut cells) = (vec![], vec![], vec![], None, usize::MAX);
        let mut whole = WHOLE;
        while let Some(arg) = args.next()? {
            match arg {
                Long("help") | Short('h') => return Ok(Self::Help),
                Long("device") => devices.push(args.value()?.parse()?),
                Long("job") => jobs.push(args.value()?.parse_with(job)?),
                Long("data") => data = Some(args.value()?.into()),
                Long("cells") => cells = args.value()?.parse()?,
                Long("seconds") => whole = Duration::from_secs(args.value()?.parse()?),
                Value(word) => words.push(word.string()?),
                Long(_) | Short(_) => return Err(arg.unexpected()),
            }
        }
        if devices.is_empty() {
            devices = vec![DeviceKind::Flex, DeviceKind::Vulkan(0), DeviceKind::Cuda(0)];
        }
        if jobs.is_empty() {
            jobs = JOBS.to_vec();
        }
        match &words[..] {
            [name, order] if name == "child" => {
                serde_json::from_str(order).map(Self::Child).map_err(|it| Custom(it.into()))
            }
            [name, out] if name == "predict" => {
                Ok(Self::Predict(Request { out: out.into(), devices, jobs, data, cells }))
            }
            [name, out] if name == "finder" => Ok(Self::Finder { out: out.into(), devices }),
            [name, folder] if name == "gpu-check" => Ok(Self::GpuCheck { folder: folder.into(), data, whole }),
            [name, out, text, recordings] if name == "end-to-end" => {
                Ok(Self::EndToEnd { out: out.into(), text: text.into(), recordings: recordings.into() })
            }
            _ => Err("it says none of these".into()),
        }
    }
}

fn job(name: &str) -> Result<&'static str, String> {
    let known = JOBS.into_iter().find(|it| *it == name);
    known.ok_or_else(|| format!("there is no job `{name}`; there are {}", JOBS.join(", ")))
}
