//! Which images are held out.

use std::collections::{BTreeMap, BTreeSet};

use super::album::Album;
use super::lines::{Group, Line};
use super::samples::Shown;
use crate::split::held_out_of;
use crate::store::Stored;

/// A fixed share of each subject's images is held out.
pub(crate) struct Split<'a> {
    held: BTreeSet<&'a str>,
    subjects: &'a [String],
    album: &'a Album,
}

impl<'a> Split<'a> {
    /// Chooses the images that are held out.
    pub(crate) fn new(lines: &'a [(usize, Line)], share: f64, subjects: &'a [String], album: &'a Album) -> Self {
        Self { held: hold_out(lines, share), subjects, album }
    }

    /// Returns the part of a line's groups that is held out, or the rest; none where a group has nothing of it.
    pub(crate) fn groups(&self, line: &Line, is_held: bool) -> Option<Vec<Shown>> {
        let shown = |group: &Group| {
            let kept = group.images.iter().filter(|image| self.held.contains(&***image) == is_held);
            let images: Vec<_> = kept.filter_map(|image| self.album.get(image)).collect();
            (!images.is_empty()).then(|| Shown { subject: self.number(&group.subject), images })
        };
        line.groups.iter().map(shown).collect()
    }

    /// Returns the images of each subject that are not held out.
    pub(crate) fn pools(&self, lines: &[(usize, Line)]) -> Vec<Vec<Stored>> {
        let mut images = vec![BTreeSet::new(); self.subjects.len()];
        for group in groups(lines) {
            images[self.number(&group.subject)].extend(group.images.iter().filter(|it| !self.held.contains(&***it)));
        }
        images.into_iter().map(|images| images.into_iter().filter_map(|it| self.album.get(it)).collect()).collect()
    }

    fn number(&self, subject: &String) -> usize {
        self.subjects.binary_search(subject).unwrap_or_else(|_| unreachable!("every subject of a line has a number"))
    }
}

fn groups(lines: &[(usize, Line)]) -> impl Iterator<Item = &Group> {
    lines.iter().flat_map(|(_, line)| &line.groups)
}

/// Chooses the images that are held out, of every subject the same share.
fn hold_out(lines: &[(usize, Line)], share: f64) -> BTreeSet<&str> {
    let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for group in groups(lines) {
        subjects.entry(&group.subject).or_default().extend(group.images.iter().map(String::as_str));
    }
    let mut held = BTreeSet::new();
    for (images, subject) in subjects.into_values().zip(0..) {
        let is_held = held_out_of(subject, images.len(), share);
        held.extend(images.into_iter().zip(is_held).filter(|(_, is_held)| *is_held).map(|(image, _)| image));
    }
    held
}
