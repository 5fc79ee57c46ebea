//! What is said on standard output and standard error.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether nobody reads standard output any more, or nothing can be written to it.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether something that was asked for could not be written.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

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
    if IS_CLOSED.load(Ordering::Relaxed) {
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

/// Whether something that was asked for could not be written to standard output.
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Writes to standard error, if that can be.
pub(crate) fn err(text: Arguments<'_>) {
    drop(stderr().lock().write_fmt(text));
}
