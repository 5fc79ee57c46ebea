//! One worker process, from its start to its end.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, io};

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Signals that are passed on before a worker that takes no notice is killed.
const PATIENCE: u32 = 2;

/// A worker that runs, alone in its process group; or what has started ranks, which are the worker then.
pub(super) struct Process {
    child: Child,
    /// Whether signals that ask for the end go to the standard input: a launcher would end its ranks at once.
    by_input: bool,
    /// Signals passed on that ask for the end, and the last of them.
    n_asked: u32,
    asked: Option<i32>,
}

/// Listens for what is passed on, and for the end of a worker; before one is started, so that none is missed.
pub(super) fn listen() -> io::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGTSTP, SIGCHLD])
}

/// Returns the command that starts this program again, even where its file has been replaced meanwhile.
pub(super) fn this_program() -> io::Result<Command> {
    let running = Path::new("/proc/self/exe");
    let mut command = Command::new(if running.exists() { running.to_owned() } else { env::current_exe()? });
    command.arg0(env::args_os().next().unwrap_or_else(|| "plimsoll".into()));
    Ok(command)
}

impl Process {
    /// Starts a worker, or a launcher; its standard input ends when this process does.
    pub(super) fn start(command: &mut Command, is_launcher: bool) -> io::Result<Self> {
        let child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        Ok(Self { child, by_input: is_launcher, n_asked: 0, asked: None })
    }

    /// Waits for the end, and passes signals on; returns the last that asked for the end with what came of it.
    pub(super) fn wait(mut self, signals: &mut Signals) -> io::Result<(ExitStatus, Option<i32>)> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status, self.asked));
            }
            for signal in signals.wait() {
                self.pass_on(signal)?;
            }
        }
    }

    fn pass_on(&mut self, signal: i32) -> io::Result<()> {
        match signal {
            SIGTSTP => {
                self.send(Signal::STOP);
                emulate_default_handler(SIGTSTP)?;
                self.send(Signal::CONT);
            }
            SIGINT | SIGTERM => {
                (self.n_asked, self.asked) = (self.n_asked + 1, Some(signal));
                let gentle = if signal == SIGINT { Signal::INT } else { Signal::TERM };
                match (&mut self.child.stdin, u8::try_from(signal)) {
                    _ if PATIENCE < self.n_asked => self.send(Signal::KILL),
                    // A launcher that has ended reads nothing, and needs to hear nothing.
                    (Some(input), Ok(byte)) if self.by_input => drop(input.write_all(&[byte])),
                    _ => self.send(gentle),
                }
            }
            _ => (),
        }
        Ok(())
    }

    fn send(&self, signal: Signal) {
        // It has not been waited for, so the number is nobody else's; that the process may have ended is fine.
        kill_process_group(Pid::from_child(&self.child), signal).unwrap_or_default();
    }
}
