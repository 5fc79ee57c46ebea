//! What is too large is said and not run, and the line is held.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Recordings per second of sound, 16 bits each.
const RATE: u32 = 16_000;

/// Writes a recording of silence.
fn write_recording(path: &Path, seconds: f64) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds are few samples")]
    let n_bytes = (seconds * f64::from(RATE)) as u32 * 2;
    let mut bytes = Vec::new();
    for part in [&b"RIFF"[..], &(36 + n_bytes).to_le_bytes(), b"WAVEfmt ", &16_u32.to_le_bytes(), &[1, 0, 1, 0]] {
        bytes.extend_from_slice(part);
    }
    for part in [&RATE.to_le_bytes()[..], &(2 * RATE).to_le_bytes(), &[2, 0, 16, 0], b"data", &n_bytes.to_le_bytes()] {
        bytes.extend_from_slice(part);
    }
    bytes.resize(bytes.len() + n_bytes as usize, 0);
    fs::write(path, bytes).unwrap();
}

/// Makes a folder of short recordings of two classes, and a long one.
fn recordings(folder: &Path, long_seconds: f64) {
    let mut labels = "path,label\n".to_owned();
    for n in 0..16 {
        let name = format!("{n}.wav");
        write_recording(&folder.join(&name), 0.4 + f64::from(n) / 40.0);
        writeln!(labels, "{name},{}", if n % 2 == 0 { "even" } else { "odd" }).unwrap();
    }
    write_recording(&folder.join("long.wav"), long_seconds);
    labels += "long.wav,even\n";
    fs::write(folder.join("labels.csv"), labels).unwrap();
}

fn train(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["train", "--job", "sequence", "--steps", "2", "--data"]).arg(folder);
    command.args(["--set", "data.buffer_limit=64MiB", "--out"]).arg(folder.join("run")).args(args);
    // A sample that ran all the same would be stopped before the machine is hurt.
    let limit = "ulimit -v 2500000 && exec \"$0\" \"$@\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", limit]).arg(command.get_program()).args(command.get_args()).env("MALLOC_ARENA_MAX", "1");
    limited.output().unwrap()
}

#[test]
fn a_sample_that_does_not_fit_is_refused_with_the_numbers_and_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    recordings(folder.path(), 20.0);
    for args in [&["--no-supervise", "--capacity", "64MiB"][..], &["--capacity", "64MiB"]] {
        let output = train(folder.path(), &[args, &["--overwrite"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for part in ["of edge ", "is not certain to fit, and was not run", "of a capacity of 64.00 MiB"] {
            assert!(stderr.contains(part), "`{stderr}` lacks `{part}`");
        }
        assert!(!stderr.contains("starting again"), "{stderr}");
    }
}
