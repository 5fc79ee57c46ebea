//! What is made of runs that there are.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run directories.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Folder for what is written: by default the run directory, and nothing of a comparison.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also write the steps as `steps.csv`.
    #[arg(long)]
    pub(crate) csv: bool,
    /// Also write event files for TensorBoard, in a folder for each run.
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Follow a run that another process writes, until it ends.
    #[arg(long, conflicts_with_all = ["out", "csv", "tensorboard"])]
    pub(crate) watch: bool,
}

impl ReportArgs {
    /// Names a flag that only one run can have.
    pub(crate) const fn of_one_run(&self) -> Option<&'static str> {
        match (self.watch, self.csv) {
            (true, _) => Some("--watch"),
            (_, true) => Some("--csv"),
            _ => None,
        }
    }
}
