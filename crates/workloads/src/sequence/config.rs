//! How a folder of recordings is read.

use std::path::PathBuf;

use plimsoll_sampler::Admit;
use plimsoll_train::BadSample;

use crate::room::StoreConfig;
use crate::split::Shares;

/// How to read a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingsConfig {
    /// The folder with `labels.csv`.
    pub folder: PathBuf,
    /// The parts of each label's recordings that are held out, or of the groups.
    pub shares: Shares,
    /// The column of `labels.csv` that names what each recording is of, such as a speaker: no two parts have recordings
    /// of the same.
    pub group_column: Option<String>,
    /// The column of `labels.csv` that names the source of each recording, such as a corpus; without one there is one source.
    pub source_column: Option<String>,
    /// The column of `labels.csv` whose values name groups, such as pairs: the recordings of each that are trained on come in
    /// one step.
    pub together_column: Option<String>,
    /// The column of `labels.csv` that says how often each recording is drawn beside the others; without one an epoch has each
    /// once.
    pub weight_column: Option<String>,
    /// What becomes of a line of `labels.csv` or a file that cannot be used.
    pub bad_sample: BadSample,
    /// The labels that there may be, in the order of the model's outputs; empty for those that there are, sorted.
    pub classes: Vec<String>,
    /// Which recordings take part, by their frames: to train on, and held out.
    pub lengths: Admit,
    /// Where what recordings become when they are first read is kept; without, and for those that have no room there, each is
    /// read and decoded whenever it is drawn.
    pub store: Option<StoreConfig>,
}

impl RecordingsConfig {
    /// Reads this folder as it is done by default.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            shares: Shares::validating(0.2),
            group_column: None,
            source_column: None,
            together_column: None,
            weight_column: None,
            bad_sample: BadSample::Fail,
            classes: Vec::new(),
            lengths: Admit::default(),
            store: None,
        }
    }
}
