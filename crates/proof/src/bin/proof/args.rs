//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_probe::DeviceKind;
use plimsoll_proof::arguments;

use crate::Failed;
use crate::jobs::JOBS;
use crate::order::Order;

pub(crate) const USAGE: &str = "write `predict OUT.json [--device DEVICE].. [--job JOB].. [--data FOLDER] [--cells N]`, \
                                `finder OUT.json [--device DEVICE]..`, \
                                `gpu-check FOLDER [--data FOLDER] [--seconds N]` or `end-to-end OUT.json \
                                TEXT RECORDINGS`";

const FLAGS: [&str; 5] = ["--device", "--job", "--data", "--cells", "--seconds"];

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
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let Some(args) = arguments(args, &FLAGS, USAGE)? else { return Ok(Self::Help) };
        let mut args = args.into_iter();
        let (mut words, mut devices, mut jobs, mut data, mut cells) = (vec![], vec![], vec![], None, usize::MAX);
        let mut whole = WHOLE;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--device" => devices.push(args.next().ok_or(USAGE)?.parse()?),
                "--job" => jobs.push(job(&args.next().ok_or(USAGE)?)?),
                "--data" => data = Some(args.next().ok_or(USAGE)?.into()),
                "--cells" => cells = args.next().and_then(|it| it.parse().ok()).ok_or(USAGE)?,
                "--seconds" => whole = Duration::from_secs(args.next().and_then(|it| it.parse().ok()).ok_or(USAGE)?),
                _ => words.push(arg),
            }
        }
        if devices.is_empty() {
            devices = vec![DeviceKind::Flex, DeviceKind::Vulkan(0), DeviceKind::Cuda(0)];
        }
        if jobs.is_empty() {
            jobs = JOBS.to_vec();
        }
        match &words[..] {
            [name, order] if name == "child" => Ok(Self::Child(serde_json::from_str(order)?)),
            [name, out] if name == "predict" => {
                Ok(Self::Predict(Request { out: out.into(), devices, jobs, data, cells }))
            }
            [name, out] if name == "finder" => Ok(Self::Finder { out: out.into(), devices }),
            [name, folder] if name == "gpu-check" => Ok(Self::GpuCheck { folder: folder.into(), data, whole }),
            [name, out, text, recordings] if name == "end-to-end" => {
                Ok(Self::EndToEnd { out: out.into(), text: text.into(), recordings: recordings.into() })
            }
            _ => Err(format!("understand the command line: {USAGE}").into()),
        }
    }
}

fn job(name: &str) -> Result<&'static str, Failed> {
    let known = JOBS.into_iter().find(|it| *it == name);
    known.ok_or_else(|| format!("prove `{name}`: there is no such job; there are {}", JOBS.join(", ")).into())
}
