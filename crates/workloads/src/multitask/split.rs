//! What each image is for.

use std::collections::{BTreeMap, BTreeSet};

use super::album::Album;
use super::lines::{Group, Line};
use super::sample::Shown;
use crate::split::{Divided, Shares};
use crate::store::Stored;

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum For {
    Training,
    Validation,
    Test,
}

/// Fixed shares of each subject's images are held out.
pub(crate) struct Split<'a> {
    images: BTreeMap<&'a str, For>,
    subjects: &'a [String],
    album: &'a Album,
}

impl<'a> Split<'a> {
    /// Chooses the images that are held out.
    pub(crate) fn new(lines: &'a [(usize, Line)], shares: Shares, subjects: &'a [String], album: &'a Album) -> Self {
        Self { images: divided(lines, shares), subjects, album }
    }

    /// Returns what a line's groups have for this; none where a group has nothing.
    pub(crate) fn groups(&self, line: &Line, what: For) -> Option<Vec<Shown>> {
        let shown = |group: &Group| {
            let kept = group.images.iter().filter(|image| self.is_for(image, what));
            let images: Vec<_> = kept.filter_map(|image| self.album.get(image)).collect();
            (!images.is_empty()).then(|| Shown { subject: self.number(&group.subject), images })
        };
        line.groups.iter().map(shown).collect()
    }

    /// Returns the images of each subject that are trained on.
    pub(crate) fn pools(&self, lines: &[(usize, Line)]) -> Vec<Vec<Stored>> {
        let mut images = vec![BTreeSet::new(); self.subjects.len()];
        for group in groups(lines) {
            let trained = group.images.iter().filter(|it| self.is_for(it, For::Training));
            images[self.number(&group.subject)].extend(trained);
        }
        images.into_iter().map(|images| images.into_iter().filter_map(|it| self.album.get(it)).collect()).collect()
    }

    fn is_for(&self, image: &str, what: For) -> bool {
        self.images.get(image) == Some(&what)
    }

    fn number(&self, subject: &String) -> usize {
        self.subjects.binary_search(subject).unwrap_or_else(|_| unreachable!("every subject of a line has a number"))
    }
}

fn groups(lines: &[(usize, Line)]) -> impl Iterator<Item = &Group> {
    lines.iter().flat_map(|(_, line)| &line.groups)
}

/// Divides the images of every subject by the same shares; one that shows two of them is held out where it is of either.
fn divided(lines: &[(usize, Line)], shares: Shares) -> BTreeMap<&str, For> {
    let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for group in groups(lines) {
        subjects.entry(&group.subject).or_default().extend(group.images.iter().map(String::as_str));
    }
    let mut divided = BTreeMap::new();
    for (images, subject) in subjects.into_values().zip(0..) {
        let Divided { train, validation, test } = shares.divide(subject, images.into_iter().collect());
        for (images, what) in [(train, For::Training), (validation, For::Validation), (test, For::Test)] {
            for image in images {
                let known = divided.entry(image).or_insert(what);
                *known = what.max(*known);
            }
        }
    }
    divided
}
