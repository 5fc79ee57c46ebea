//! What a task is told.

use std::ffi::OsString;
use std::path::{self, PathBuf};

use lexopt::{Arg, Error, Parser, ValueExt};

use crate::process::Stop;

/// What may follow a flag.
pub(crate) struct Value<'p>(&'p mut Parser);

impl Value<'_> {
    /// Takes a file or a folder, which is the same wherever cargo runs.
    pub(crate) fn path(self) -> Result<PathBuf, Error> {
        path::absolute(self.0.value()?).map_err(|error| Error::Custom(error.into()))
    }

    pub(crate) fn text(self) -> Result<String, Error> {
        self.0.value()?.string()
    }

    pub(crate) fn number(self) -> Result<u64, Error> {
        self.0.value()?.parse()
    }
}

/// Says that there is no such flag.
pub(crate) fn unknown() -> Result<(), Error> {
    Err("there is no such flag".into())
}

/// Tells `take` each flag of a task, which takes what follows it.
///
/// # Errors
///
/// [`Stop::Usage`] with `only`, which says what there is to take, where anything else is said.
pub(crate) fn flags(
    args: &[OsString],
    only: &str,
    mut take: impl FnMut(&str, Value<'_>) -> Result<(), Error>,
) -> Result<(), Stop> {
    let mut parser = Parser::from_args(args);
    let mut all = || {
        while let Some(arg) = parser.next()? {
            let Arg::Long(name) = arg else { return Err(arg.unexpected()) };
            let name = name.to_owned();
            take(&name, Value(&mut parser))?;
        }
        Ok(())
    };
    all().map_err(|_: Error| Stop::Usage(only.to_owned()))
}
