//! A run of `plimsoll train` as a process, and what is done to it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How often a process and its log are looked after.
const PATIENCE: Duration = Duration::from_millis(2);
/// A process without an end by then hangs: even on a busy machine it takes some seconds.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(90);

/// The program, supervisor or not, and its worker if it has one.
pub(crate) struct Process {
    child: Child,
    started: Instant,
    stop: Arc<AtomicBool>,
}

/// What a process is told.
pub(crate) struct Order<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<String>,
    /// The faults inside it.
    pub(crate) faults: Option<String>,
    /// The most that a file of it may hold, in blocks of 512 bytes.
    pub(crate) file_limit: Option<u64>,
    /// Where its words go.
    pub(crate) words: &'a Path,
    /// Whether somebody has asked for the end of everything.
    pub(crate) stop: &'a Arc<AtomicBool>,
}

impl Process {
    pub(crate) fn start(order: &Order<'_>) -> io::Result<Self> {
        let mut command = match order.file_limit {
            // Ignored, the signal becomes an error of the write, as on a full disk.
            Some(blocks) => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""));
                command.arg(order.program);
                command
            }
            None => Command::new(order.program),
        };
        command.args(&order.args).stdin(Stdio::null());
        let words = |name: &str| -> io::Result<File> {
            OpenOptions::new().create(true).append(true).open(order.words.join(name))
        };
        match order.file_limit {
            // What it says must not meet the limit.
            Some(_) => command.stdout(Stdio::null()).stderr(Stdio::null()),
            None => command.stdout(words("stdout.txt")?).stderr(words("stderr.txt")?),
        };
        if let Some(faults) = &order.faults {
            command.env("PLIMSOLL_FAULTS", faults);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self { child: command.spawn()?, started: Instant::now(), stop: Arc::clone(order.stop) })
    }

    /// Returns how it ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until `condition` holds or the process has ended; returns how it ended.
    pub(crate) fn wait(&mut self, mut condition: impl FnMut(&Self) -> bool) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if condition(self) {
                return Ok(None);
            }
            let reason = if self.stop.load(Relaxed) {
                io::ErrorKind::Interrupted
            } else if PATIENCE_IN_ALL < self.age() {
                io::ErrorKind::TimedOut
            } else {
                thread::sleep(PATIENCE);
                continue;
            };
            self.kill_all()?;
            return Err(reason.into());
        }
    }

    /// Sends a signal to the program, which is to pass it on.
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        signal(self.child.id(), name)
    }

    /// Kills the worker, or the program where it has none; returns whether there was one.
    pub(crate) fn kill_worker(&mut self) -> io::Result<bool> {
        if let Some(worker) = worker_of(self.child.id()) {
            signal(worker, "KILL")?;
            return Ok(true);
        }
        self.child.kill()?;
        Ok(false)
    }

    /// Kills the program and its worker at one moment.
    pub(crate) fn kill_all(&mut self) -> io::Result<ExitStatus> {
        let worker = worker_of(self.child.id());
        self.child.kill()?;
        if let Some(worker) = worker {
            signal(worker, "KILL")?;
        }
        self.child.wait()
    }
}

/// Sends a signal; a process that is gone by now needs none.
fn signal(pid: u32, name: &str) -> io::Result<()> {
    Command::new("sh").arg("-c").arg(format!("kill -{name} {pid} 2> /dev/null")).status().map(|_| ())
}

fn worker_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
