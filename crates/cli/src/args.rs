//! The command line.

mod batches;
mod layers;
mod report;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use plimsoll_plan::PLAN_FILE;
use plimsoll_types::Extent;

pub(crate) use self::batches::{Format, Outside, PlanBatchesArgs};
pub(crate) use self::report::ReportArgs;
use crate::exit::CODES;

/// Memory-aware training for Burn: each step as large as is certain to fit the memory, and run again in halves where it runs
/// out all the same.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say nothing of how it goes: only results, warnings and errors.
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a job under a memory budget.
    ///
    /// The jobs are `sr` (image super-resolution by two), `sequence` (classification of recordings), `multitask` (several
    /// tasks on images with texts) and `text` (a small language model). Everything that a run leaves lies in one folder,
    /// from which it goes on after Ctrl-C, a kill or a crash.
    #[command(after_help = CODES)]
    Train(TrainArgs),
    /// Say what every step would need, before one is run.
    ///
    /// Prints a table of patch or length against batch, and writes `memory_plan.json` with its picture; a run begins with
    /// such a plan by `memory.plan = "memory_plan.json"`.
    #[command(after_help = CODES)]
    Plan(PlanArgs),
    /// Find the largest batch that fits, or the fastest.
    ///
    /// Takes a few real steps, for training and for inference; the answer is a number for `batch.batch_size`.
    #[command(after_help = CODES)]
    Find(FindArgs),
    /// Continue texts with the model of a `text` run, as many at a time as fit the memory.
    #[command(after_help = CODES)]
    Generate(GenerateArgs),
    /// Double the sides of images with the model of an `sr` run, in tiles, as many at a time as fit the memory.
    #[command(after_help = CODES)]
    Upscale(UpscaleArgs),
    /// Say what files show, or what is said in them, with the model of a `sequence` or `multitask` run.
    ///
    /// Prints a line for each file: its name, the most probable label and how probable that is, with tabs between. A model
    /// of recordings takes sound or traces. A model of images takes images, each for its subject, and lists such as
    /// `samples.jsonl`, where a line names its task and its images.
    #[command(after_help = CODES)]
    Predict(PredictArgs),
    /// Plan the batches of one epoch over samples of given lengths, under a budget of padded tokens or frames.
    ///
    /// For a data loader of your own: every sample comes once, unless the flags say otherwise, and no batch exceeds the budget.
    /// Samples may have several lengths, be packed, or be of several tasks in wanted shares; batches may be dealt to ranks.
    #[command(after_help = CODES)]
    PlanBatches(PlanBatchesArgs),
    /// Say what the data of a job must be, or check a folder and say what a run would see.
    #[command(after_help = CODES)]
    Data(DataArgs),
    /// Show every device that can be seen, and why others cannot, and what a run on some of them would have.
    #[command(after_help = CODES)]
    Probe(ProbeArgs),
    /// Make the report of a run again, compare several runs, or look on while one goes on.
    ///
    /// Of one run directory the report and its pictures are written anew from what its log holds; several are compared side by
    /// side, and the first is what the others are held against.
    #[command(after_help = CODES)]
    Report(ReportArgs),
    /// Feed a run's log to the policy again and compare its decisions.
    #[command(after_help = CODES)]
    Replay {
        /// The logs and incidents: `events.jsonl` and `incident-N.json` of run directories.
        #[arg(required = true)]
        logs: Vec<PathBuf>,
    },
    /// Print the resolved configuration with a comment for each key.
    ///
    /// The output is a file that `--config` reads.
    #[command(after_help = CODES)]
    Config(RunArgs),
}

/// Flags that name values of the configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Job: `sr` (the default), `sequence`, `multitask` or `text`.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Configuration file in TOML; `plimsoll config` prints one with all keys.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One value of the configuration, such as `memory.target=0.8`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of the job's data, for `text` also a file, as `plimsoll data JOB` says; by default the data that come along.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Memory to respect, such as `2GiB`, or `device` for all that there is; by default what `plimsoll config` shows. Of
    /// several devices a size for each, as in `2GiB, 4GiB`, or one for all.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Device: `flex` (this CPU, the default), `vulkan`, `vulkan:1`, `cuda` or `cuda:0`; or several of them, as in
    /// `cuda:0, cuda:1`.
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
    /// Seed of everything random; 0 by default.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
}

/// How long a run is.
#[derive(Debug, Args)]
pub(crate) struct StepsArgs {
    /// Optimizer steps; by default those that suit the job.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    steps: Option<String>,
}

/// Whether a run is the same bit by bit.
#[derive(Debug, Args)]
pub(crate) struct DeterminismArgs {
    /// Take micro-batches from the plan alone, for weights that are the same bit by bit however often a run is killed; slower, on a
    /// CPU on one thread.
    #[arg(long)]
    deterministic: bool,
}

/// Flags that name values of a run's configuration.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) steps: StepsArgs,
    #[command(flatten)]
    pub(crate) determinism: DeterminismArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) values: RunArgs,
    /// The run directory; by default a new one in `runs/`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on from the last checkpoint of the run directory, with its configuration.
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) resume: bool,
    /// Delete the run directory first if there is one.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Train on so many ranks, each a process that `mpirun` starts, on one machine or, as it is set up, on several.
    #[arg(long, value_name = "N", conflicts_with = "no_supervise", value_parser = value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Train in this process, instead of in a worker that is started again when it dies.
    #[arg(long)]
    pub(crate) no_supervise: bool,
    /// Show Prometheus at this address what the run does, such as 127.0.0.1:9464; whoever reaches it may read.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) metrics_addr: Option<SocketAddr>,
    /// How to show what the run does.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = LogFormat::Live)]
    pub(crate) log: LogFormat,
    /// Append to this file what each phase of a step takes, in a line of JSON each.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A view that is drawn anew on a terminal, and lines elsewhere.
    Live,
    /// Lines, on a terminal too.
    Lines,
    /// On standard output each event of the run, as its log has it, and nothing else.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Configuration file in TOML, whose devices are marked.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory to respect, as `plimsoll train` takes it; by default all that there is, or what the file says.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Device, or several of them, as `plimsoll train` takes them.
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) steps: StepsArgs,
    /// The plan; pictures of the same name with .svg and .png lie beside it.
    #[arg(long, value_name = "FILE", default_value = PLAN_FILE)]
    pub(crate) out: PathBuf,
    /// Epochs to look ahead, instead of the configured steps.
    #[arg(long, value_name = "N", value_parser = epochs, allow_hyphen_values = true)]
    pub(crate) epochs: Option<f64>,
    /// Time two real steps of the largest cell that fits, to say how long training would take.
    #[arg(long)]
    pub(crate) time: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// What makes a batch the best.
    #[arg(long, value_enum, default_value_t = FindObjective::Largest)]
    pub(crate) objective: FindObjective,
    /// Edge of the samples, or one along each axis as in 6x24; by default the largest patch for training and the validation tile
    /// otherwise.
    #[arg(long, value_name = "N", value_parser = extent)]
    pub(crate) edge: Option<Extent>,
    /// The largest batch to consider.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = value_parser!(u32).range(1..=MOST_BATCH))]
    pub(crate) batch_max: u32,
    /// The share by which the answer is smaller than the largest batch that is certain to fit, from 0 to 0.9.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = |text: &str| within(text, 0.0..=0.9))]
    #[arg(allow_hyphen_values = true)]
    pub(crate) batch_reduction: f64,
    /// Also write the answer as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The run directory, with `config.toml`, `tokenizer.json` and a checkpoint.
    pub(crate) run: PathBuf,
    /// The beginning of a text; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Vec<String>,
    /// A file with the beginning of a text on each line.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,
    /// The most tokens to write for a prompt.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=65536))]
    pub(crate) max_tokens: u32,
    /// 0: always the most probable token; 1: as the model says.
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = |text: &str| within(text, 0.0..=100.0))]
    #[arg(allow_hyphen_values = true)]
    pub(crate) temperature: f64,
    /// How many of the most probable tokens are considered; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top_k: usize,
    /// Seed of the choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Texts at a time; by default as many as fit the memory.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) batch_size: Option<u32>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Where a trained model works, if not where it was trained.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Memory to respect, such as `2GiB`, or `device`; by default that of the run.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Device: `flex`, `vulkan`, `vulkan:1`, `cuda` or `cuda:0`; by default that of the run, of several the first.
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
    /// The checkpoint that was best in validation, instead of the last.
    #[arg(long)]
    pub(crate) best: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpscaleArgs {
    /// The run directory, with `config.toml` and a checkpoint.
    pub(crate) run: PathBuf,
    /// Image files: PNG, JPEG, WebP, GIF, BMP, PNM, QOI or TIFF.
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<PathBuf>,
    /// Folder for the results, each `NAME.x2.png`.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Replace results that are there already.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Edge of a tile in pixels; by default `sr.validation_tile` of the run.
    #[arg(long, value_name = "PIXELS", value_parser = value_parser!(u32).range(1..))]
    pub(crate) tile: Option<u32>,
    /// Tiles at a time; by default as many as fit the memory.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) batch_size: Option<u32>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The run directory, with `config.toml`, `signature.json` and a checkpoint.
    pub(crate) run: PathBuf,
    /// Recordings, or images and lists.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// How many labels to name for each, from the most probable.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    pub(crate) top: u32,
    /// Files at a time; by default as many as fit the memory.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) batch_size: Option<u32>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// The largest edge and the largest batch that a search takes.
const MOST_EDGE: u32 = 1 << 20;
const MOST_BATCH: i64 = 1 << 20;

/// A million epochs: more is a typing error.
const MOST_EPOCHS: f64 = 1e6;

/// Reads an address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "allowed is an address with a port, such as 127.0.0.1:9464 or [::1]:9464".to_owned())
}

/// Reads a number in a range; NaN is outside of any.
fn within(text: &str, allowed: RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|it| allowed.contains(it));
    number.ok_or_else(|| format!("allowed is a number from {} to {}", allowed.start(), allowed.end()))
}

/// Reads an extent: a length, or one along each axis with an `x` or a `×` between them.
fn extent(text: &str) -> Result<Extent, String> {
    let edge = |it: &str| it.trim().parse().ok().filter(|edge| (1..=MOST_EDGE).contains(edge));
    let edges: Option<Vec<u32>> = text.split(['x', '×']).map(edge).collect();
    let extent = edges.and_then(|it| Extent::try_new(&it).ok());
    extent
        .ok_or_else(|| format!("allowed is a length from 1 to {MOST_EDGE}, or one along each of up to 3 axes, as 6x24"))
}

/// Reads a number of epochs, which need not be whole.
fn epochs(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|it| 0.0 < *it && *it <= MOST_EPOCHS);
    number.ok_or_else(|| format!("allowed is a number above 0 and at most {MOST_EPOCHS}"))
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// The job: `sr`, `sequence`, `multitask` or `text`.
    pub(crate) job: String,
    /// The folder to check; without it, what it must hold is printed.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Configuration file in TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One value of the configuration, such as `data.bad_sample=skip`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// What makes a batch the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FindObjective {
    /// The largest that fits.
    Largest,
    /// The one with the most samples per second.
    Throughput,
}

#[cfg(test)]
mod tests {
    use super::extent;

    #[test]
    fn an_extent_is_read_as_it_is_printed() {
        assert!(extent("6x24").is_ok_and(|it| it.n_axes() == 2));
        assert_eq!(extent("6 × 24"), extent("6x24"));
    }
}
