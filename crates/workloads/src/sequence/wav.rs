//! Reading WAV files.

use std::fs::{self, File};
use std::io::{self, BufReader, Seek};
use std::path::Path;

use hound::{SampleFormat, WavReader};

use super::fault::Fault;
use super::mel::LOWEST_RATE;

/// What the head of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Sample rate in Hz.
    pub(crate) rate: u32,
    pub(crate) n_samples: u32,
}

/// Reads the head, and checks that as many samples follow as it says.
pub(crate) fn header(path: &Path) -> Result<Header, Fault> {
    let (reader, header) = open(path)?;
    let mut file = reader.into_inner();
    let (expected, n_bytes) = (2 * u64::from(header.n_samples), file.get_ref().metadata()?.len());
    let found = n_bytes.saturating_sub(file.stream_position()?);
    if found < expected { Err(Fault::Truncated { expected, found }) } else { Ok(header) }
}

/// Reads the samples one after the other, with values from −1 to 1.
pub(crate) fn samples(path: &Path) -> Result<(Header, impl Iterator<Item = Result<f32, Fault>>), Fault> {
    let (reader, found) = open(path)?;
    let unit = |it: i16| f32::from(it) / 32_768.0;
    // The head says what the library does not: how much is missing.
    let failed = |error| header(path).err().unwrap_or_else(|| fault(error));
    Ok((found, reader.into_samples().map(move |sample| sample.map(unit).map_err(failed))))
}

fn open(path: &Path) -> Result<(WavReader<BufReader<File>>, Header), Fault> {
    let reader = WavReader::new(BufReader::new(file(path)?)).map_err(fault)?;
    let spec = reader.spec();
    let form = if spec.sample_format == SampleFormat::Int { "integer" } else { "float" };
    if (spec.channels, spec.bits_per_sample, form) != (1, 16, "integer") {
        return Err(Fault::Format { channels: spec.channels, bits: spec.bits_per_sample, form });
    }
    let header = Header { rate: spec.sample_rate, n_samples: reader.len() };
    match header {
        Header { n_samples: 0, .. } => Err(Fault::Empty("samples")),
        Header { rate, .. } if rate < LOWEST_RATE => Err(Fault::RateTooLow { found: rate, least: LOWEST_RATE }),
        header => Ok((reader, header)),
    }
}

/// Opens what is a file.
pub(crate) fn file(path: &Path) -> Result<File, Fault> {
    match fs::metadata(path) {
        Ok(it) if it.is_dir() => Err(Fault::Folder),
        Ok(_) => Ok(File::open(path)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::Missing),
        Err(error) => Err(error.into()),
    }
}

fn fault(error: hound::Error) -> Fault {
    match error {
        // What ends too early is told by the library as an error of no kind.
        hound::Error::IoError(error) if error.kind() != io::ErrorKind::Other => Fault::Io(error),
        other => Fault::NoWav(other.to_string()),
    }
}
