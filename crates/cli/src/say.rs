//! What is said on standard output and standard error.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whether nobody reads standard output any more, or nothing can be written to it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether something that was asked for could not be written.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Which of several ranks this process is: what all do alike only the first tells.
static RANK: AtomicU32 = AtomicU32::new(0);

/// Whether nobody wants to know how it goes.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Tells from now on only what went wrong, and by which rank, where it is not the first.
pub(crate) fn as_rank(rank: u32) {
    RANK.store(rank, Ordering::Relaxed);
}

/// Tells from now on only what went wrong, and what was asked for.
pub(crate) fn quietly() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether nobody is to be told how it goes: they do not want to know, or another rank tells it.
pub(crate) fn is_silent() -> bool {
    IS_QUIET.load(Ordering::Relaxed) || is_told_by_another()
}

/// Whether another rank tells what this one does too.
fn is_told_by_another() -> bool {
    RANK.load(Ordering::Relaxed) != 0
}

/// As the standard library's, but no panic where nobody reads any more, or the disk is full.
macro_rules! print {
    ($($part:tt)*) => { $crate::say::out(format_args!($($part)*)) };
}

/// As the standard library's, but no panic where nobody reads any more, or the disk is full.
macro_rules! println {
    ($($part:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($part)*))) };
}

/// As the standard library's, but no panic where it cannot be said: what is done goes on.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($part)*))) };
}

/// Writes to standard output; where that cannot be, what is done goes on without.
pub(crate) fn out(text: Arguments<'_>) {
    if IS_CLOSED.load(Ordering::Relaxed) || is_told_by_another() {
        return;
    }
    let mut stdout = stdout().lock();
    let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) else { return };
    IS_CLOSED.store(true, Ordering::Relaxed);
    // Whoever read has enough.
    if error.kind() != ErrorKind::BrokenPipe {
        HAS_FAILED.store(true, Ordering::Relaxed);
        eprintln!("error: failed to write to standard output: {error}");
    }
}

/// Writes whole lines to standard output, likewise.
pub(crate) fn lines(lines: &[u8]) {
    out(format_args!("{}", String::from_utf8_lossy(lines)));
}

/// Whether something that was asked for could not be written to standard output.
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Writes to standard error, if that can be.
pub(crate) fn err(text: Arguments<'_>) {
    if let Some(text) = told(&text.to_string(), is_silent(), RANK.load(Ordering::Relaxed)) {
        // At once: other ranks write to the same place, and standard error is not buffered.
        drop(stderr().lock().write_all(text.as_bytes()));
    }
}

/// What a rank says of a text, if anything: a silent one tells of problems alone.
fn told(text: &str, is_silent: bool, rank: u32) -> Option<String> {
    let is_told = !is_silent || PROBLEMS.iter().any(|it| text.starts_with(it));
    let prefix = if rank == 0 { String::new() } else { format!("rank {rank}: ") };
    is_told.then(|| prefix + text)
}

/// Shows a text; a terminal that is gone shows nothing, which must not end the run.
pub(crate) fn show(text: &str) {
    if is_silent() {
        return;
    }
    let mut stderr = stderr().lock();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// How lines begin that each rank tells, and a quiet one too.
const PROBLEMS: [&str; 2] = ["error: ", "warning: "];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_tells_its_problems_and_the_first_what_all_do() {
        assert_eq!(told("run         out\n", false, 0).as_deref(), Some("run         out\n"));
        assert_eq!(told("run         out\n", true, 0), None);
        assert_eq!(told("warning: slow\n", true, 0).as_deref(), Some("warning: slow\n"));
        assert_eq!(told("error: gone\n", true, 3).as_deref(), Some("rank 3: error: gone\n"));
    }
}
