//! Fresh processes.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_probe::DeviceKind;

use crate::Failed;
use crate::order::{Order, Reply, Task};

/// How often a process is looked after; the shortest task takes some hundred milliseconds.
const PATIENCE: Duration = Duration::from_millis(5);

/// Lines of a failed process that are shown; Vulkan drivers write many.
const LAST_LINES: usize = 5;

/// A job on a device, and the moment by which everything there must have ended.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) job: &'static str,
    pub(crate) device: DeviceKind,
    /// Whether activations are recomputed in the backward pass.
    pub(crate) checkpointing: bool,
    /// A folder with a folder of data for each job that needs one.
    pub(crate) data: Option<PathBuf>,
    /// What the device calls itself.
    pub(crate) name: String,
    pub(crate) end: Option<Instant>,
}

impl Place {
    /// Does something in a fresh process.
    pub(crate) fn ask(&self, task: Task) -> Result<Reply, Failed> {
        let order = Order {
            job: self.job.to_owned(),
            device: self.device,
            checkpointing: self.checkpointing,
            data: self.data.clone(),
            task,
        };
        // Files, since a pipe that nobody reads stops its writer.
        let (mut out, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(serde_json::to_string(&order)?);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(errors.try_clone()?);
        if self.is_over() || !self.wait(&mut command.spawn()?)? {
            return Err("run a process to its end: its time was up".into());
        }
        let said = text(&mut out)?;
        let Some(reply) = said.lines().rfind(|it| it.starts_with('{')) else {
            let last: Vec<_> = text(&mut errors)?.lines().rev().take(LAST_LINES).map(str::to_owned).collect();
            let last: Vec<_> = last.iter().rev().map(String::as_str).collect();
            return Err(format!("run a process to its end: {}", last.join(" / ")).into());
        };
        Ok(serde_json::from_str(reply)?)
    }

    /// Whether nothing more may begin.
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Waits for the end of the process, or ends it when the time is up.
    fn wait(&self, child: &mut Child) -> Result<bool, Failed> {
        while child.try_wait()?.is_none() {
            if self.is_over() {
                child.kill()?;
                child.wait()?;
                return Ok(false);
            }
            thread::sleep(PATIENCE);
        }
        Ok(true)
    }
}

fn text(file: &mut File) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
