//! Runs a test in a process whose Vulkan driver can refuse memory.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use plimsoll_probe::{DeviceKind, open};
use plimsoll_types::Bytes;

const SOFTWARE: &str = "/usr/lib/chromium/libvk_swiftshader.so";
const REFUSE: &str = "PLIMSOLL_REFUSE";
const ALLOCATIONS: &str = "PLIMSOLL_ALLOCATIONS";

/// Runs the body in a process of its own, under the shim, or says why it is skipped; `test` is the path of the test.
///
/// Vulkan's loader reads the environment once, so that it must be set before the process begins.
pub(crate) fn under_shim(test: &str, body: impl FnOnce()) {
    if env::var_os(REFUSE).is_some() {
        return body();
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path()) else { return };
    let driver = folder.path().join("driver.json");
    let json = r#"{"file_format_version":"1.0.0","ICD":{"library_path":"LIBRARY","api_version":"1.0.5"}}"#;
    let json = json.replace("LIBRARY", library.to_str().unwrap());
    fs::write(&driver, json).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("VK_DRIVER_FILES", driver).env("PLIMSOLL_DRIVER", SOFTWARE);
    command.env(REFUSE, folder.path().join("refuse")).env(ALLOCATIONS, folder.path().join("allocations"));
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", output.status);
}

/// Builds the shim, where there is a driver behind it, a loader that finds drivers, and a compiler.
fn compile(folder: &Path) -> Option<PathBuf> {
    if !Path::new(SOFTWARE).is_file() {
        eprintln!("skipped: there is no {SOFTWARE}");
        return None;
    }
    if let Err(error) = open(DeviceKind::Vulkan(0), None) {
        eprintln!("skipped: failed to {error}");
        return None;
    }
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vulkan_oom/refuse.c"), folder.join("librefuse.so"));
    let ran = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl").status();
    match ran {
        Ok(status) => assert!(status.success(), "the shim does not compile"),
        Err(error) => {
            eprintln!("skipped: cc: {error}");
            return None;
        }
    }
    Some(library)
}

/// While it lives, the driver refuses memory.
pub(crate) struct Refusal {
    before: usize,
}

impl Refusal {
    /// Refuses every allocation of such a size.
    pub(crate) fn begin(sizes: &RangeInclusive<Bytes>) -> Self {
        let before = n_refused();
        fs::write(env::var_os(REFUSE).unwrap(), format!("{} {}", sizes.start().0, sizes.end().0)).unwrap();
        Self { before }
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        fs::remove_file(env::var_os(REFUSE).unwrap()).unwrap();
        assert!(std::thread::panicking() || self.before < n_refused(), "nothing was asked for, so nothing was refused");
    }
}

fn n_refused() -> usize {
    let text = fs::read_to_string(env::var_os(ALLOCATIONS).unwrap()).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("refused")).count()
}
