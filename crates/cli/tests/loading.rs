//! Ends that come while data are loaded.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take that is waited for: far more than it does, on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(5);

/// Names of one image; to decode it under each of them takes seconds on any machine.
const N_NAMES: usize = 6000;

/// Makes a folder of one image under many names.
fn many_images(folder: &Path) {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sr");
    let first = folder.join("0.png");
    fs::copy(images.join("00_leaves.png"), &first).unwrap();
    (1..N_NAMES).for_each(|at| fs::hard_link(&first, folder.join(format!("{at}.png"))).unwrap());
}

#[test]
fn a_signal_while_images_are_decoded_ends_the_run_as_one_between_steps_does() {
    let folder = tempfile::tempdir().unwrap();
    let (images, out) = (folder.path().join("images"), folder.path().join("run"));
    fs::create_dir(&images).unwrap();
    many_images(&images);
    for (name, code, args) in [("INT", 130, &["--no-supervise"][..]), ("TERM", 143, &[])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["train", "--data"]).arg(&images).arg("--out").arg(&out).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is made before the first image is decoded.
        let (start, pixels) = (Instant::now(), out.join("decoded.pixels"));
        while !pixels.exists() {
            assert!(start.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "nothing is decoded");
            sleep(Duration::from_millis(2));
        }
        let killed = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("interrupted") && !stderr.contains("starting again"), "{stderr}");
        assert!(!pixels.exists() && !out.join("events.jsonl").exists(), "{stderr}");
    }
}
