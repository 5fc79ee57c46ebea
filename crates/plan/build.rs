//! Tells the program which versions of Burn and `CubeCL` it is built with, which no crate says of itself.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let (path, lock) = lock()?;
    println!("cargo::rerun-if-changed={}", path.display());
    let burn = version(&lock, "burn").ok_or_else(|| format!("find burn in {}", path.display()))?;
    println!("cargo::rustc-env=PLIMSOLL_BURN={burn}");
    // A build for the CPU alone may know nothing of it.
    println!("cargo::rustc-env=PLIMSOLL_CUBECL={}", version(&lock, "cubecl").unwrap_or("none"));
    Ok(())
}

/// Finds the lock of this build: the one above the build's own folder, and where that lies elsewhere, above the sources.
fn lock() -> Result<(PathBuf, String), Box<dyn Error>> {
    let places = ["OUT_DIR", "CARGO_MANIFEST_DIR"].map(|it| env::var_os(it).map(PathBuf::from).unwrap_or_default());
    let locks = places.iter().flat_map(|it| it.ancestors()).map(|it| it.join("Cargo.lock"));
    let mut own = locks.filter_map(|path| fs::read_to_string(&path).ok().map(|lock| (path, lock)));
    let found = own.find(|(_, lock)| package(lock, env!("CARGO_PKG_NAME")).is_some());
    Ok(found.ok_or_else(|| format!("find the Cargo.lock of this build above {}", Path::display(&places[0])))?)
}

/// Returns what the lock says of a package, the first where there are several.
fn package<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    lock.split("[[package]]").find(|it| it.trim_start().starts_with(&format!("name = \"{name}\"\n")))
}

/// Returns the version of a dependency of this crate: named where the lock has several, else that of the only one.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let quoted = |text: &'a str| Some(text.split_once('"')?.1.split_once('"')?.0);
    let of_only_one = || package(lock, name)?.lines().find_map(|line| quoted(line.strip_prefix("version = ")?));
    let own = package(lock, env!("CARGO_PKG_NAME"))?;
    let named = own.lines().filter_map(quoted).find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
    named.and_then(|it| it.split(' ').next()).or_else(of_only_one)
}
