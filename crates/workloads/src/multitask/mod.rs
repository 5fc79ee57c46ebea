//! Up to three tasks on samples that differ in their number of images, trained together.
//!
//! The data is a folder with a file `samples.jsonl`, one sample a line: its task, its subjects, its images and a text.
//!
//! | task | a sample is | what is learnt | loss |
//! |---|---|---|---|
//! | `single` | one image of a subject | which subject it is | cross-entropy over the subjects |
//! | `subject` | several images of one subject | which subject it is | cross-entropy over the subjects |
//! | `pair` | images of two subjects, in two groups | whether the groups are shown in the order in which the text names them, or the other way round | cross-entropy over the two |
//!
//! A folder may have samples of one task or two; the others then have neither a head nor a part in the loss.
//! One encoder for images and one for texts serve all tasks, and so does the layer that fuses them; each task has a
//! head of its own.
//! The text tells nobody the answer: in the first two tasks the words that tell subjects apart are hidden, and in the
//! third the groups change places in half of the samples, drawn for every epoch anew, while the text stays.
//!
//! # What is trained on, and what is held out
//!
//! Of every subject a fixed share of the images is held out, chosen by a fixed seed.
//! A line validates with those of its images that are held out.
//! It trains with as many images as are left of its own, drawn for every epoch anew from all those of its subject that
//! are not held out, and each a little turned, stretched, coloured, enlarged and blotted: a few dozen images are soon
//! known by heart, and what an image shows is pooled over its places, which so few teach nothing about
//! (`FusionConfig::has_places` keeps them).
//! So no held-out image is ever trained on, while a line with images on both sides serves twice, and its text with it.
//!
//! Each task's baseline is the best constant prediction: how often each subject occurs in training, or all subjects
//! alike where that is better, and an even chance for the order.
//!
//! # What a step's loss is
//!
//! The mean over the tasks of `w · L`, where `L` is a task's mean loss over its samples in the whole step and `w` its
//! weight; how a step is divided into micro-batches changes nothing, because every sample carries its share.
//! There is no batch norm and no dropout, which would break that: the first depends on the other samples of a
//! micro-batch, and the second on how many samples were drawn before.

mod album;
mod augment;
mod baseline;
mod batch;
mod encoder;
mod error;
mod job;
mod lines;
mod model;
mod question;
mod recognizer;
mod samples;
mod scarce;
mod signature;
mod source;
mod split;
mod tasks;
mod words;

pub use augment::Augmentation;
pub use batch::MixedTensors;
pub use encoder::N_HEADS;
pub use error::DataError;
pub use job::{Multitask, MultitaskConfig};
pub use lines::Task;
pub use model::{FusionConfig, FusionModel};
pub use question::Question;
pub use recognizer::{RecognizeError, Recognizer};
pub use samples::{Sample, Samples, SamplesConfig};
pub use scarce::{ENOUGH_IMAGES, Scarce};
pub use signature::Signature;
pub use source::{LoadedSample, SampleBuffer, SampleSource};
