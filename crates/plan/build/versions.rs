//! The versions that a build takes, out of its `Cargo.lock`.

use std::fs;
use std::path::{Path, PathBuf};

/// This package.
const OWN: &str = "plimsoll-plan";

/// What a program is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) burn: String,
    pub(crate) cubecl: String,
}

impl Versions {
    /// Says that nobody knows: a plan of this build holds in this build only.
    pub(crate) fn unknown(build: &str) -> Self {
        Self { burn: format!("unknown (build of {build})"), cubecl: "unknown".to_owned() }
    }

    /// Reads them in a lock; `None` where it is not one of a build with this package.
    pub(crate) fn of(lock: &str) -> Option<Self> {
        package(lock, OWN)?;
        // A build for the CPU alone may know nothing of it.
        let cubecl = version(lock, "cubecl").unwrap_or("none").to_owned();
        Some(Self { burn: version(lock, "burn")?.to_owned(), cubecl })
    }
}

/// Finds the lock of a build: the one that is named, or else the nearest above the build's own folder.
///
/// Not the one above these sources: where they are a dependency, that is the lock of whoever wrote them.
pub(crate) fn find(named: Option<&Path>, out_dir: &Path) -> Option<(PathBuf, Versions)> {
    let read = |path: PathBuf| Versions::of(&fs::read_to_string(&path).ok()?).map(|versions| (path, versions));
    match named {
        Some(path) => read(path.to_owned()),
        None => out_dir.ancestors().find_map(|it| read(it.join("Cargo.lock"))),
    }
}

/// Returns what the lock says of a package, the first where there are several.
fn package<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let is_named = |it: &&str| it.lines().any(|line| line.trim_end() == format!("name = \"{name}\""));
    lock.split("[[package]]").find(is_named)
}

/// Returns the version of a dependency of this crate: named where the lock has several, else that of the only one.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let quoted = |text: &'a str| Some(text.split_once('"')?.1.split_once('"')?.0);
    let of_only_one = || package(lock, name)?.lines().find_map(|line| quoted(line.strip_prefix("version = ")?));
    let own = package(lock, OWN)?;
    let named = own.lines().filter_map(quoted).find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
    named.and_then(|it| it.split(' ').next()).or_else(of_only_one)
}
