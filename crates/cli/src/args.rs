//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::load::Layers;

/// Memory-aware training for Burn.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a job under a memory budget.
    Train(TrainArgs),
    /// Show every device that can be seen, and why others cannot.
    Probe,
    /// Feed a run's log to the policy again and compare its decisions.
    Replay {
        /// The logs: `events.jsonl` of run directories.
        #[arg(required = true)]
        logs: Vec<PathBuf>,
    },
    /// Print the resolved configuration with a comment for each key.
    Config(ConfigArgs),
}

/// Flags that name values of the configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Job to train.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Configuration file in TOML; `plimsoll config` prints one with all keys.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One value of the configuration, such as `memory.target=0.8`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of training data.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Memory to respect, such as `2GiB`, or `device`.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Device: `flex`, `vulkan`, `vulkan:1`, `cuda` or `cuda:0`.
    #[arg(long, value_name = "KIND")]
    device: Option<String>,
    /// Optimizer steps.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Seed of everything random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The run directory; by default a new one in `runs/`.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on from the last checkpoint of the run directory, with its configuration.
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) resume: bool,
    /// Delete the run directory first if there is one.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

impl ConfigArgs {
    /// Returns the layers that the flags make; a resumed run's own configuration lies below them.
    pub(crate) fn layers(&self, resumed: Option<PathBuf>) -> Layers {
        let flags = [
            ("job", self.job.as_deref().map(quoted)),
            ("data.folder", self.data.as_ref().map(|it| quoted(&absolute(it).display().to_string()))),
            ("memory.capacity", self.capacity.as_deref().map(quoted)),
            ("device", self.device.as_deref().map(quoted)),
            ("train.steps", self.steps.map(|it| it.to_string())),
            ("seed", self.seed.map(|it| it.to_string())),
        ];
        let flags = flags.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        Layers {
            files: resumed.into_iter().chain(self.config.clone()).collect(),
            sets: self.set.iter().cloned().chain(flags).collect(),
        }
    }
}

/// Keeps a text that looks like a number a text.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// A path that still holds when the run is resumed from another folder; where that cannot be told it stays as it is.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
