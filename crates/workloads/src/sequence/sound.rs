//! Reading sound files.

use std::fs::File;
use std::io;
use std::path::Path;

use plimsoll_signal::LOWEST_RATE;
use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_MP3, CODEC_ID_PCM_ALAW, CODEC_ID_PCM_F32LE, CODEC_ID_PCM_F64LE, CODEC_ID_PCM_MULAW, CODEC_ID_PCM_S16LE,
    CODEC_ID_PCM_S24LE, CODEC_ID_PCM_S32LE, CODEC_ID_PCM_U8, CODEC_ID_VORBIS,
};
use symphonia::core::codecs::audio::{AudioCodecId, AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions, ReadBytes};
use symphonia::core::meta::MetadataOptions;

use super::fault::Fault;
use crate::files::{no_file, open_file};

/// The highest sample rate, twice what studios use: a head that says more is broken.
const HIGHEST_RATE: u32 = 384_000;

/// The largest sample: full scale is 1, and numbers with a point may pass it.
const LOUDEST: f32 = 1000.0;

/// Samples that a file of a lossy format may lack: encoders add some at both ends.
const SLACK: u64 = 8192;

/// Samples of each channel that a byte of a compressed file may stand for, as it does in silence; a head that says more is
/// not believed.
const MOST_SAMPLES: u64 = 512;

/// What a sample of a WAV file takes in bytes, by its codec, where each takes as many.
const RAW: [(&[AudioCodecId], u64); 5] = [
    (&[CODEC_ID_PCM_U8, CODEC_ID_PCM_ALAW, CODEC_ID_PCM_MULAW], 1),
    (&[CODEC_ID_PCM_S16LE], 2),
    (&[CODEC_ID_PCM_S24LE], 3),
    (&[CODEC_ID_PCM_S32LE, CODEC_ID_PCM_F32LE], 4),
    (&[CODEC_ID_PCM_F64LE], 8),
];

/// What the head of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Sample rate in Hz.
    pub(crate) rate: u32,
    /// Samples of each channel.
    pub(crate) n_samples: u64,
}

/// Reads the head; the rest is passed over, not decoded, where the head does not tell how long it is.
///
/// Of a file that is not compressed it checks that as many samples follow as it says.
pub(crate) fn header(path: &Path) -> Result<Header, Fault> {
    let file = Sound::open(path)?;
    let (rate, n_bytes) = (file.rate, file.n_bytes);
    let n_samples = match (file.n_told, file.raw()) {
        (_, Some((n_samples, expected))) => {
            let found = n_bytes.saturating_sub(file.format.into_inner().pos());
            if found < expected {
                return Err(Fault::Truncated { expected, found });
            }
            n_samples
        }
        (Some(n_samples), None) if n_samples <= n_bytes.saturating_mul(MOST_SAMPLES) => n_samples,
        _ => file.counted()?,
    };
    if n_samples == 0 { Err(Fault::Empty("samples")) } else { Ok(Header { rate, n_samples }) }
}

/// Reads the samples one after the other, the mean of all channels, with values from −1 to 1.
///
/// One block of the file is in memory at a time.
pub(crate) fn samples(path: &Path) -> Result<(Header, impl Iterator<Item = Result<f32, Fault>>), Fault> {
    let sound = Sound::open(path)?;
    let header = match sound.raw() {
        // One that is cut short says so at its end.
        Some((n_samples, n_bytes)) if 0 < n_samples && n_bytes <= sound.n_bytes => {
            Header { rate: sound.rate, n_samples }
        }
        _ => header(path)?,
    };
    let slack = if sound.is_lossy() { SLACK } else { 0 };
    let least = header.n_samples.saturating_sub(slack);
    Ok((header, Samples { sound, block: Vec::new(), at: 0, n_read: 0, least, path: path.to_owned() }))
}

/// Opens what is a file.
pub(crate) fn open(path: &Path) -> Result<File, Fault> {
    open_file(path).map_err(|error| match no_file(&error) {
        Some(other) => Fault::NoFile(other),
        None if error.kind() == io::ErrorKind::NotFound => Fault::Missing,
        None => Fault::Io(error),
    })
}

/// A file whose head was read.
struct Sound {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    rate: u32,
    /// Samples of each channel, where the head says.
    n_told: Option<u64>,
    /// Bytes of the file.
    n_bytes: u64,
}

impl Sound {
    fn open(path: &Path) -> Result<Self, Fault> {
        let file = open(path)?;
        let n_bytes = file.metadata()?.len();
        let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
        let mut hint = Hint::new();
        if let Some(extension) = path.extension().and_then(|it| it.to_str()) {
            hint.with_extension(extension);
        }
        let probed =
            symphonia::default::get_probe().probe(&hint, stream, FormatOptions::default(), MetadataOptions::default());
        let format = probed.map_err(fault)?;
        let none = || Fault::NoSound("it holds no sound".to_owned());
        let track = format.default_track(TrackType::Audio).ok_or_else(none)?;
        let params = track.codec_params.as_ref().and_then(|it| it.audio()).ok_or_else(none)?;
        let rate = params.sample_rate.ok_or_else(none)?;
        if !(LOWEST_RATE..=HIGHEST_RATE).contains(&rate) {
            return Err(Fault::Rate { found: rate, least: LOWEST_RATE, most: HIGHEST_RATE });
        }
        let decoder = symphonia::default::get_codecs().make_audio_decoder(params, &AudioDecoderOptions::default());
        let decoder = decoder.map_err(fault)?;
        // Without a table of contents, that of an MP3 file is a guess.
        let n_told = track.num_frames.filter(|_| params.codec != CODEC_ID_MP3);
        Ok(Self { track: track.id, rate, n_told, n_bytes, decoder, format })
    }

    fn params(&self) -> &AudioCodecParameters {
        self.decoder.codec_params()
    }

    fn is_lossy(&self) -> bool {
        [CODEC_ID_MP3, CODEC_ID_VORBIS].contains(&self.params().codec)
    }

    /// Returns the samples of each channel that the head of a file without compression tells, and the bytes of all of them.
    fn raw(&self) -> Option<(u64, u64)> {
        let (n_samples, n_each) = (self.n_told?, self.sample_bytes()?);
        Some((n_samples, n_samples.saturating_mul(n_each)))
    }

    /// Returns the bytes of one sample of all channels, where each takes as many.
    fn sample_bytes(&self) -> Option<u64> {
        let AudioCodecParameters { codec, channels, .. } = self.params();
        // The bits that count may be fewer than those of the container, which the codec is named after.
        let of_codec = |(codecs, _): &&(&[AudioCodecId], u64)| codecs.contains(codec);
        let (_, n_bytes) = RAW.iter().find(of_codec)?;
        Some(n_bytes * channels.as_ref()?.count() as u64)
    }

    /// Counts the samples of what follows.
    fn counted(mut self) -> Result<u64, Fault> {
        let (mut n_samples, is_mp3) = (0, self.params().codec == CODEC_ID_MP3);
        while let Some(packet) = self.format.next_packet().or_else(ended).map_err(fault)? {
            // The library's reader of MP3 counts what its decoder takes off at the ends.
            let n_off = if is_mp3 { packet.trim_start.get().saturating_add(packet.trim_end.get()) } else { 0 };
            n_samples += if packet.track_id == self.track { packet.dur.get().saturating_sub(n_off) } else { 0 };
        }
        Ok(n_samples)
    }

    /// Decodes the next block into the mean of its channels; false after the last one.
    fn read(&mut self, block: &mut Vec<f32>) -> Result<bool, Fault> {
        block.clear();
        while block.is_empty() {
            let Some(packet) = self.format.next_packet().or_else(ended).map_err(fault)? else { return Ok(false) };
            if packet.track_id != self.track {
                continue;
            }
            let decoded = self.decoder.decode(&packet).map_err(fault)?;
            let n_channels = decoded.num_planes();
            decoded.copy_to_vec_interleaved(block);
            mix(block, n_channels);
        }
        // One alone would make everything that is computed from the recording no number.
        if let Some(value) = block.iter().find(|it| it.is_nan() || LOUDEST < it.abs()) {
            return Err(Fault::NoSound(format!("it has a sample of {value}, allowed is -{LOUDEST} to {LOUDEST}")));
        }
        Ok(true)
    }
}

/// Puts the mean of all channels in the place of each.
fn mix(block: &mut Vec<f32>, n_channels: usize) {
    if n_channels < 2 {
        return;
    }
    let n = block.len() / n_channels;
    for at in 0..n {
        block[at] = block[at * n_channels..][..n_channels].iter().sum::<f32>() / n_channels as f32;
    }
    block.truncate(n);
}

/// The samples of a file.
struct Samples {
    sound: Sound,
    block: Vec<f32>,
    /// The next sample of the block.
    at: usize,
    n_read: u64,
    /// Samples without which the file is cut short.
    least: u64,
    path: std::path::PathBuf,
}

impl Samples {
    /// Says why there is no further sample, if that is a fault.
    fn end(&mut self) -> Option<Result<f32, Fault>> {
        let (found, expected) = (self.n_read, std::mem::take(&mut self.least));
        // The head says how many bytes are missing.
        (found < expected).then(|| Err(header(&self.path).err().unwrap_or(Fault::Short { found, expected })))
    }
}

impl Iterator for Samples {
    type Item = Result<f32, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.block.len() {
            self.at = 0;
            match self.sound.read(&mut self.block) {
                Ok(true) => (),
                Ok(false) => return self.end(),
                Err(fault) => return Some(Err(fault)),
            }
        }
        (self.at, self.n_read) = (self.at + 1, self.n_read + 1);
        Some(Ok(self.block[self.at - 1]))
    }
}

/// A file that ends in the middle of a block ends there; how much is missing shows later.
fn ended<T>(error: Error) -> Result<Option<T>, Error> {
    match error {
        Error::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        error => Err(error),
    }
}

fn fault(error: Error) -> Fault {
    match error {
        Error::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::NoSound("it ends too early".to_owned())
        }
        Error::IoError(error) => Fault::Io(error),
        error => Fault::NoSound(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hound::{SampleFormat, WavSpec, WavWriter};

    use super::*;

    /// A tone of 440 Hz and half a second.
    fn tone(rate: u32) -> impl Iterator<Item = f32> {
        let at = move |it| 0.5 * (2.0 * std::f32::consts::PI * 440.0 * it as f32 / rate as f32).sin();
        (0..rate / 2).map(at)
    }

    /// One of the tones that another library has compressed.
    fn compressed(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sequence/sounds").join(name)
    }

    #[track_caller]
    fn read(path: &Path) -> (Header, Vec<f32>) {
        let (header, sound) = samples(path).unwrap();
        (header, sound.collect::<Result<_, _>>().unwrap())
    }

    #[test]
    fn wav_files_of_every_kind_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tone.wav");
        for (bits_per_sample, sample_format, worst) in [
            (8, SampleFormat::Int, 2.0 / 127.0),
            (16, SampleFormat::Int, 1e-4),
            (24, SampleFormat::Int, 1e-6),
            (32, SampleFormat::Int, 1e-6),
            (32, SampleFormat::Float, 0.0),
        ] {
            for channels in [1_u16, 2, 3] {
                let spec = WavSpec { channels, sample_rate: 8000, bits_per_sample, sample_format };
                let mut writer = WavWriter::create(&path, spec).unwrap();
                for value in tone(8000) {
                    for channel in 0..channels {
                        // Their mean is the tone.
                        let value = value * [1.0, 0.5, 1.5][usize::from(if channels == 3 { channel } else { 0 })];
                        #[expect(clippy::cast_possible_truncation, reason = "the scale is that of the integers")]
                        match sample_format {
                            SampleFormat::Float => writer.write_sample(value).unwrap(),
                            SampleFormat::Int => {
                                let scale = f64::from((1_u32 << (bits_per_sample - 1)) - 1);
                                writer.write_sample((f64::from(value) * scale) as i32).unwrap();
                            }
                        }
                    }
                }
                writer.finalize().unwrap();
                let (header, found) = read(&path);
                assert_eq!(header, Header { rate: 8000, n_samples: 4000 }, "{spec:?}");
                assert_eq!(found.len(), 4000, "{spec:?}");
                let close = |(a, b): (&f32, f32)| (a - b).abs() <= f32::max(worst, f32::from(channels - 1) * 1e-7);
                assert!(found.iter().zip(tone(8000)).all(close), "{spec:?}");
            }
        }
    }

    #[test]
    fn compressed_files_are_read_and_their_channels_mixed() {
        for (name, rate, loudness) in [("mono.ogg", 8000, 1.0), ("mono.mp3", 8000, 1.0), ("stereo.flac", 11_025, 0.5)] {
            let path = compressed(name);
            let (header, found) = read(&path);
            assert_eq!((header.rate, header.n_samples), (rate, found.len() as u64), "{name}");
            // An encoder may add some at the ends.
            assert!(found.len().abs_diff(rate as usize / 2) < 2500, "{name}: {}", found.len());
            let power = |it: &mut dyn Iterator<Item = f32>| it.map(|it| f64::from(it).powi(2)).sum::<f64>();
            let ratio = power(&mut found.into_iter()) / power(&mut tone(rate).map(|it| it * loudness));
            assert!((0.95..1.05).contains(&ratio), "{name}: {ratio}");
        }
    }

    #[test]
    fn a_sample_that_is_no_number_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken.wav");
        let spec = WavSpec { channels: 1, sample_rate: 8000, bits_per_sample: 32, sample_format: SampleFormat::Float };
        for value in [f32::NAN, f32::INFINITY, 1e30] {
            let mut writer = WavWriter::create(&path, spec).unwrap();
            tone(8000).chain([value]).for_each(|it| writer.write_sample(it).unwrap());
            writer.finalize().unwrap();
            let (_, sound) = samples(&path).unwrap();
            let fault = sound.collect::<Result<Vec<_>, _>>().unwrap_err();
            assert!(matches!(fault, Fault::NoSound(_)), "{value}: {fault}");
        }
    }

    #[test]
    fn tags_before_the_sound_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tagged.mp3");
        let tag = [&b"ID3\x04\x00\x00\x00\x00\x01\x00"[..], &[0; 128]].concat();
        fs::write(&path, [tag, fs::read(compressed("mono.mp3")).unwrap()].concat()).unwrap();
        assert_eq!(read(&path), read(&compressed("mono.mp3")));
    }

    #[test]
    fn the_head_tells_when_samples_in_wider_containers_are_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.wav");
        for channels in [1, 2] {
            let sample_format = SampleFormat::Int;
            let spec = WavSpec { channels, sample_rate: 8000, bits_per_sample: 24, sample_format };
            let mut file = io::Cursor::new(Vec::new());
            let wide = hound::WavSpecEx { spec, bytes_per_sample: 4 };
            let mut writer = WavWriter::new_with_spec_ex(&mut file, wide).unwrap();
            (0..4000 * i32::from(channels)).for_each(|it| writer.write_sample(it).unwrap());
            writer.finalize().unwrap();
            let whole = file.into_inner();
            fs::write(&path, &whole).unwrap();
            assert_eq!(header(&path).unwrap(), Header { rate: 8000, n_samples: 4000 });
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            let n_bytes = 16_000 * u64::from(channels);
            let fault = header(&path).unwrap_err();
            let (is_told, least) = (|it: &Fault| matches!(it, Fault::Truncated { .. }), (n_bytes - 1).to_string());
            assert!(is_told(&fault) && fault.to_string().contains(&least), "{channels}: {fault}");
        }
    }

    #[test]
    fn a_compressed_file_that_was_cut_short_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.flac");
        let whole = fs::read(compressed("stereo.flac")).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let (_, sound) = samples(&path).unwrap();
        let fault = sound.collect::<Result<Vec<_>, _>>().unwrap_err();
        assert!(matches!(fault, Fault::Short { .. } | Fault::NoSound(_)), "{fault}");
    }
}
