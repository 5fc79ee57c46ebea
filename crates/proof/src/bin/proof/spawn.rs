//! Fresh processes.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_predict::Dtype;
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
    /// What passes compute in.
    pub(crate) dtype: Dtype,
    /// A folder with a folder of data for each job that needs one.
    pub(crate) data: Option<PathBuf>,
    /// What the device calls itself.
    pub(crate) name: String,
    pub(crate) end: Option<Instant>,
}

impl Place {
    /// Returns the same place with the first of so many equal parts of the time that is left.
    pub(crate) fn turn(&self, n_left: usize) -> Self {
        let (now, n_left) = (Instant::now(), u32::try_from(n_left).unwrap_or(u32::MAX).max(1));
        let end = self.end.map(|end| now + end.saturating_duration_since(now) / n_left);
        Self { end, ..self.clone() }
    }

    /// Does something in a fresh process.
    pub(crate) fn ask(&self, task: Task) -> Result<Reply, Failed> {
        let said = self.begin(task)?.finish(self.end, &mut || Ok(()))?;
        let reply = said.lines().rfind(|it| it.starts_with('{')).ok_or("get an answer from a process")?;
        Ok(serde_json::from_str(reply)?)
    }

    /// Begins to do something in a fresh process.
    pub(crate) fn begin(&self, task: Task) -> Result<Running, Failed> {
        let order = Order {
            job: self.job.to_owned(),
            device: self.device,
            checkpointing: self.checkpointing,
            dtype: self.dtype,
            data: self.data.clone(),
            task,
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(serde_json::to_string(&order)?);
        if is_over(self.end) {
            return Err("run a process to its end: its time was up".into());
        }
        Running::begin(&mut command)
    }
}

/// A process that ends with this, if not before.
pub(crate) struct Running {
    child: Child,
    // Files, since a pipe that nobody reads stops its writer.
    out: File,
    errors: File,
}

impl Running {
    /// Starts a program.
    pub(crate) fn begin(command: &mut Command) -> Result<Self, Failed> {
        let (out, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(errors.try_clone()?);
        let child = command.spawn().map_err(|error| format!("start {}: {error}", command.get_program().display()))?;
        Ok(Self { child, out, errors })
    }

    /// Waits for the end of the process, doing something else again and again, and returns what it said.
    pub(crate) fn finish(
        mut self,
        end: Option<Instant>,
        meanwhile: &mut dyn FnMut() -> Result<(), Failed>,
    ) -> Result<String, Failed> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if is_over(end) {
                return Err("run a process to its end: its time was up".into());
            }
            meanwhile()?;
            thread::sleep(PATIENCE);
        };
        if !status.success() {
            let last = text(&mut self.errors)?;
            let mut last: Vec<_> = last.lines().rev().filter(|it| !it.is_empty()).take(LAST_LINES).collect();
            last.reverse();
            return Err(format!("run a process to its end: {}", last.join(" / ")).into());
        }
        text(&mut self.out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or nobody waits for it.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Whether nothing more may begin.
fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| end <= Instant::now())
}

fn text(file: &mut File) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
