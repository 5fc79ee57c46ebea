//! Recordings of silence.

use std::fmt::Write;
use std::fs;
use std::path::Path;

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

/// Makes a folder of thirty short recordings of two classes, and two long ones of a third, of which one is held out.
pub(crate) fn recordings(folder: &Path, long_seconds: f64) {
    let mut labels = "path,label\n".to_owned();
    for n in 0..30 {
        let name = format!("{n}.wav");
        write_recording(&folder.join(&name), 0.4 + f64::from(n) / 40.0);
        writeln!(labels, "{name},{}", if n % 2 == 0 { "even" } else { "odd" }).unwrap();
    }
    for name in ["long.wav", "longer.wav"] {
        write_recording(&folder.join(name), long_seconds);
        writeln!(labels, "{name},long").unwrap();
    }
    fs::write(folder.join("labels.csv"), labels).unwrap();
}
