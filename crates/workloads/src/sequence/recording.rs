//! One recording of a folder.

use std::fmt;

/// Groups of similar length that held-out recordings are measured in.
const VALIDATION_EDGES: usize = 4;

/// One file with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its path below the folder.
    pub name: String,
    /// Its label, as an index into the classes.
    pub class: usize,
    /// Its source, as an index into the sources; 0 where there are none.
    pub source: u16,
    /// The group that it stays together with, as an index into those of the list in alphabetical order; 0 where there are none.
    pub together: u32,
    /// How often it is drawn beside the others, where there are weights.
    pub weight: Option<f64>,
    /// Its length when the folder was read, without what is cut off.
    pub n_frames: u32,
    /// Its place among all that are trained on or held out.
    pub(crate) number: usize,
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} frames", self.name, self.n_frames)
    }
}

/// Divides recordings, shortest first, into a few of similar length, each with the length of its longest.
pub(crate) fn by_length(recordings: &[Recording]) -> impl Iterator<Item = (u32, &[Recording])> {
    let groups = recordings.chunks(recordings.len().div_ceil(VALIDATION_EDGES).max(1));
    groups.map(|group| (group.last().map_or(1, |it| it.n_frames), group))
}
