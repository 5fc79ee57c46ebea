//! What a run would see of a folder.

use std::collections::BTreeMap;

use plimsoll_sampler::AdmitCounts;

/// What a run would see of a folder, known from lists and heads alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What a sample is called, in the plural.
    pub samples: &'static str,
    /// Samples to train on.
    pub n_train: usize,
    /// Samples that are held out to validate on.
    pub n_validation: usize,
    /// Samples that are held out to test on.
    pub n_test: usize,
    /// What a length counts.
    pub unit: &'static str,
    /// The length of every sample to train on.
    pub lengths: Vec<u64>,
    /// How many samples there are of each kind, such as a label or a task, by the name of what divides them.
    pub kinds: Vec<(&'static str, BTreeMap<String, usize>)>,
    /// Samples that are left out or cut for their lengths.
    pub outside: AdmitCounts,
    /// What was left out, each with the reason.
    pub skipped: Vec<String>,
}

/// Counts each of some names.
pub(crate) fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// Errors that may mean that a folder holds nothing for a job.
pub trait AboutFolder {
    /// Whether the folder as a whole is not what the job needs, and not one file of it.
    fn is_about_folder(&self) -> bool;
}
