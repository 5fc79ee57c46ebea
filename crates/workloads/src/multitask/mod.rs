//! Any number of tasks on samples that differ in their number of images, trained together.
//!
//! The data is a folder with a file `samples.jsonl`, one sample a line: its task, its subjects, its images and a text.
//! The data name the tasks; what a task asks is what its lines have:
//!
//! | a line has | what is asked | answers |
//! |---|---|---|
//! | one subject | which subject the images show | all subjects of the list |
//! | one subject and a `label` | which label the images have | all labels of the task |
//! | two subjects, whose images `counts` divides | whether the two groups are shown in the order in which the text names them, or the other way round | these two |
//!
//! One encoder for images and one for texts serve all tasks, and so does the layer that fuses them; each task has a
//! head of its own.
//! The text tells nobody the answer: the words that tell subjects or labels apart are hidden from the tasks that ask for
//! them, and where the order is asked for the groups change places in half of the samples, drawn for every epoch anew,
//! while the text stays.
//!
//! # What is trained on, and what is held out
//!
//! Of every subject fixed shares of the images are held out to validate and to test on, chosen by a fixed seed.
//! A line validates with those of its images that are held out for that, and is tested with those for the test.
//! It trains with as many images as are left of its own, drawn for every epoch anew from all those of its subject that
//! are not held out, and each a little turned, stretched, coloured, enlarged and blotted: a few dozen images are soon
//! known by heart, and what an image shows is pooled over its places, which so few teach nothing about
//! (`FusionConfig::has_places` keeps them).
//! Images become squares of one size, or keep their own shapes and sizes (`SamplesConfig::own_sizes`): samples then have a third
//! axis, the longest side, to which a batch pads them, and what is padding is 0 after every convolution and counts in no mean.
//! So no held-out image is ever trained on, while a line with images on both sides serves twice, and its text with it.
//!
//! Each task is measured by its cross-entropy and by its accuracy.
//! Its baseline is the best constant prediction: how often each answer occurs in training, or all answers alike where that
//! is better, the most frequent answer for the accuracy, and an even chance for the order.
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
mod fusion_config;
mod job;
mod lines;
mod loaded;
mod model;
mod question;
mod recognizer;
mod sample;
mod samples;
mod samples_config;
mod scarce;
mod seen;
mod signature;
mod sizes;
mod source;
mod split;
mod standard;
mod tasks;
mod words;

pub use augment::Augmentation;
pub use batch::MixedTensors;
pub use encoder::N_HEADS;
pub use error::DataError;
pub use fusion_config::FusionConfig;
pub use job::{Multitask, MultitaskConfig};
pub use lines::Asks;
pub use loaded::LoadedSample;
pub use model::FusionModel;
pub use question::Question;
pub use recognizer::{RecognizeError, Recognizer};
pub use sample::Sample;
pub use samples::Samples;
pub use samples_config::SamplesConfig;
pub use scarce::{ENOUGH_IMAGES, Scarce};
pub use signature::Signature;
pub use source::{SampleBuffer, SampleSource};
pub use tasks::Task;
