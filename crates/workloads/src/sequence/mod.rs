//! Classification of sequences of different lengths: spoken words, or drawings as the pen went.
//!
//! A folder has a `labels.csv`, whose first line names the columns; `path` and `label` are read, others are left alone.
//! The files are either sound (`.wav`, `.flac`, `.ogg`, `.oga`, `.mp3`) or traces in text (`.txt`), told apart by their
//! names.
//! Of several channels the mean is taken, and sound of another rate than most of the folder's is resampled to that.
//!
//! Sound becomes logarithmic mel spectra: frames of 25 ms begin every 10 ms, each under a Hann window; its power spectrum
//! is summed into 40 triangular bands, equally wide on the mel scale from 60 Hz to half the sample rate.
//! Of the logarithms, each band's mean over the recording is taken off, which removes loudness and microphone, and all are
//! divided by their common standard deviation.
//!
//! A trace is scaled to its longer side and resampled to steps of 1/24 of it; a frame is a step's direction (x, y), whether
//! the pen was up, the logarithm of the step's duration, and the position (x, y).
//!
//! Files stay on disk: each is looked at once to know that it can be used and how long it is, and is read and decoded by the
//! loader's threads when it is first drawn; its frames are kept where `RecordingsConfig::store` gives them room, and it is
//! read and decoded in every epoch where not.
//! The metric is the accuracy in per cent over the recordings that are held out, of speakers of their own where
//! `RecordingsConfig::group_column` asks for that, and the baseline is the accuracy of always saying
//! the label that is most frequent in training.

mod classifier;
mod config;
mod division;
mod endings;
mod fault;
mod form;
mod frames;
mod job;
mod kept;
mod labels;
mod model;
mod recording;
mod recordings;
mod signature;
mod sound;
mod source;
mod strokes;

pub use classifier::{Classifier, ClassifyError};
pub use config::RecordingsConfig;
pub use fault::{DataError, Fault};
pub use frames::{FrameBuffer, Frames};
pub use job::{LabelledFrames, SequenceConfig, SequenceJob};
pub use model::{Encoder, EncoderConfig};
pub use recording::Recording;
pub use recordings::Recordings;
pub use signature::Signature;
pub use source::RecordingStream;
