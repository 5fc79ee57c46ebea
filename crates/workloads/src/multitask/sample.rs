//! One line of the list as a sample.

use super::lines::LIST;
use super::sizes::narrow;
use crate::outside::{Gate, Outside};
use crate::store::Stored;

/// One sample, with its images decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The number of its task.
    pub task: u16,
    /// Its line in the list, from 1.
    pub line: usize,
    /// One group, or the two whose order is asked for.
    pub(crate) groups: Vec<Shown>,
    /// The number of its answer; that of an order is drawn.
    pub(crate) answer: usize,
    /// Its text.
    pub(crate) tokens: Vec<u32>,
}

/// Images of one subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    /// Number of the subject.
    pub(crate) subject: usize,
    pub(crate) images: Vec<Stored>,
}

impl Sample {
    /// Returns the number of its images.
    pub fn n_images(&self) -> u32 {
        narrow(self.groups.iter().map(|it| it.images.len()).sum())
    }

    /// Returns the number of its words, or 1 where it has none: a text is padded to one at least.
    pub fn n_words(&self) -> u32 {
        narrow(self.tokens.len()).max(1)
    }

    /// Lets it pass by the number of its images, of which it may lose some: the last one of its largest group, again and again.
    pub(super) fn admitted(mut self, gate: &mut Gate) -> Result<Option<Self>, Outside> {
        let (n_images, line) = (self.n_images(), self.line);
        let name = || format!("line {line} of {LIST}");
        let Some(most) = gate.pass(n_images, name)? else { return Ok(None) };
        while most < self.n_images() {
            let largest = self.groups.iter_mut().max_by_key(|it| it.images.len());
            largest.map(|it| it.images.pop());
        }
        let is_whole = self.groups.iter().all(|it| !it.images.is_empty());
        if is_whole { Ok(Some(self)) } else { Err(gate.refused(n_images, name())) }
    }
}
