//! What the files of a folder hold, and how it becomes frames.

use std::path::Path;

use plimsoll_signal::{BANDS, LogMel, Resampled, n_resampled};

use super::endings::SOUNDS;
use super::fault::Fault;
use super::sound::Header;
use super::{sound, strokes};

/// What all files of a folder hold.
pub(crate) enum Form {
    Sound(LogMel),
    Strokes,
}

/// What a first look at a file finds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    Sound(Header),
    /// A trace of so many frames.
    Strokes(u32),
}

impl Seen {
    /// Looks at a file: the head of a sound, the whole of a trace, whose length shows in no other way.
    pub(crate) fn look(path: &Path) -> Result<Self, Fault> {
        let extension = path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some(it) if SOUNDS.contains(&it) => Ok(Self::Sound(sound::header(path)?)),
            Some("txt") => Ok(Self::Strokes(n_frames(strokes::read(path)?.len() / strokes::VALUES))),
            _ => Err(Fault::Extension),
        }
    }

    fn rate(self) -> Option<u32> {
        match self {
            Self::Sound(header) => Some(header.rate),
            Self::Strokes(_) => None,
        }
    }
}

impl Form {
    /// Returns what most of these files hold.
    pub(crate) fn of(seen: &[Seen]) -> Self {
        let mut rates: Vec<_> = seen.iter().copied().filter_map(Seen::rate).collect();
        rates.sort_unstable();
        // The lowest of equals.
        let most = rates.chunk_by(|a, b| a == b).rev().max_by_key(|it| it.len());
        match most {
            Some(most) if seen.len() <= 2 * rates.len() => Self::Sound(LogMel::new(most[0])),
            _ => Self::Strokes,
        }
    }

    /// Returns how many frames a file has, if it is like the others.
    pub(crate) fn n_frames(&self, seen: Seen) -> Result<u32, Fault> {
        match (self, seen) {
            (Self::Strokes, Seen::Strokes(n)) => Ok(n),
            (Self::Sound(mel), Seen::Sound(header)) => {
                let n_samples = n_resampled(header.n_samples, [header.rate, mel.rate()]);
                Ok(n_frames(mel.n_frames(usize::try_from(n_samples).unwrap_or(usize::MAX))))
            }
            (Self::Sound(_), Seen::Strokes(_)) => Err(Fault::Mixed { found: "a trace", expected: "sound" }),
            (Self::Strokes, Seen::Sound(_)) => Err(Fault::Mixed { found: "sound", expected: "a trace" }),
        }
    }

    /// Says what a frame is.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Sound(_) => "frames of 10 ms",
            Self::Strokes => "steps of the pen",
        }
    }

    /// Returns how many values a frame has.
    pub(crate) fn n_values(&self) -> usize {
        match self {
            Self::Sound(_) => BANDS,
            Self::Strokes => strokes::VALUES,
        }
    }

    /// Reads the first frames of a file, at most so many.
    ///
    /// # Shapes
    ///
    /// - output: `[n_frames, n_values]`
    pub(crate) fn read(&self, path: &Path, most: u32) -> Result<Vec<f32>, Fault> {
        let Self::Sound(mel) = self else {
            let mut values = strokes::read(path)?;
            values.truncate(most as usize * strokes::VALUES);
            return Ok(values);
        };
        let (header, sound) = sound::samples(path)?;
        let whole = self.n_frames(Seen::Sound(header))?;
        if most < whole {
            // What is not read to its end would not say there that it is cut short.
            sound::header(path)?;
        }
        let n_frames = whole.min(most) as usize;
        if header.rate == mel.rate() {
            return mel.frames(sound, n_frames);
        }
        mel.frames(Resampled::try_new(sound, header.n_samples, [header.rate, mel.rate()])?, n_frames)
    }
}

fn n_frames(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use hound::{SampleFormat, WavSpec, WavWriter};

    use super::*;

    #[test]
    fn a_file_that_is_cut_short_is_found_before_its_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let spec = WavSpec { channels: 1, sample_rate: 8000, bits_per_sample: 16, sample_format: SampleFormat::Int };
        let mut writer = WavWriter::create(&path, spec).unwrap();
        (0..1000_i16).for_each(|it| writer.write_sample(it).unwrap());
        writer.finalize().unwrap();
        let form = Form::Sound(LogMel::new(8000));
        assert_eq!(form.read(&path, 2).unwrap().len(), 2 * BANDS);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        // Fewer bytes than the head has.
        file.set_len(file.metadata().unwrap().len() - 20).unwrap();
        assert!(matches!(form.read(&path, 2), Err(Fault::Truncated { expected: 2000, found: 1980 })));
    }
}
