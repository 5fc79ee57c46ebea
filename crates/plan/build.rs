//! Tells the program which versions of Burn and `CubeCL` it is built with, which no crate says of itself.

#[path = "build/versions.rs"]
mod versions;

use std::env;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use versions::{Versions, find};

/// The variable that names the lock of a build whose target folder lies elsewhere.
const LOCK: &str = "PLIMSOLL_CARGO_LOCK";

fn main() {
    let place = |name| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let named = env::var_os(LOCK).map(PathBuf::from);
    // Whatever is found: without a line like this, every file of the package would be one to build again for.
    println!("cargo::rerun-if-env-changed={LOCK}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/versions.rs");
    let found = find(named.as_deref(), &place("OUT_DIR"));
    if let Some((path, _)) = &found {
        println!("cargo::rerun-if-changed={}", path.display());
    } else if let Some(path) = named {
        println!("cargo::warning={LOCK} names {}, which is no Cargo.lock of a build with this crate", path.display());
    }
    let Versions { burn, cubecl } = found.map_or_else(|| Versions::unknown(&moment()), |(_, versions)| versions);
    println!("cargo::rustc-env=PLIMSOLL_BURN={burn}");
    println!("cargo::rustc-env=PLIMSOLL_CUBECL={cubecl}");
}

/// Returns what no other build has.
fn moment() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}
