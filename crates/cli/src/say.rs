//! What is said on standard output and standard error.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::exit;

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

/// Writes to standard output; ends the program where that cannot be, which is no failure where whoever read has enough.
#[expect(clippy::exit, reason = "what is asked for cannot be said any more, and a run has saved what it has")]
pub(crate) fn out(text: Arguments<'_>) {
    let mut stdout = stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Ok(()) => (),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            eprintln!("error: failed to write to standard output: {error}");
            exit(1)
        }
    }
}

/// Writes to standard error, if that can be.
pub(crate) fn err(text: Arguments<'_>) {
    drop(stderr().lock().write_fmt(text));
}
