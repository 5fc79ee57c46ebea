//! Texts as token ids: a word is a token.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::lines::{Line, Task};

/// Pads a text.
pub(crate) const PADDING: u32 = 0;
/// A word that no training text has.
const UNKNOWN: u32 = 1;
/// One or more words that would tell which subject is shown.
const HIDDEN: u32 = 2;
/// The first id of a known word.
const FIRST: u32 = 3;

/// The words of the training texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Words {
    /// The id of every word, and whether it is seen with many subjects.
    known: BTreeMap<String, (u32, bool)>,
}

impl Words {
    /// Learns the words of these lines, numbered in alphabetical order.
    ///
    /// A word is common if the texts of at least half of the subjects have it; what tells subjects apart is not.
    pub(crate) fn of(lines: &[&Line]) -> Self {
        let mut subjects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let (mut all, mut singles) = (BTreeSet::new(), BTreeSet::new());
        for line in lines {
            for word in split(&line.text) {
                all.insert(word.clone());
                if line.task != Task::Pair {
                    singles.insert((word, line.groups[0].subject.as_str()));
                }
            }
        }
        let n_subjects = singles.iter().map(|(_, subject)| *subject).collect::<BTreeSet<_>>().len();
        for (word, subject) in &singles {
            subjects.entry(word).or_default().insert(subject);
        }
        let is_common = |word: &str| subjects.get(word).is_some_and(|it| n_subjects <= 2 * it.len());
        let known = all.iter().zip(FIRST..).map(|(word, id)| (word.clone(), (id, is_common(word)))).collect();
        Self { known }
    }

    /// Returns how many ids there are.
    pub(crate) fn n_ids(&self) -> usize {
        self.known.len() + FIRST as usize
    }

    /// Whether a word or a mark has this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        (id as usize) < self.n_ids()
    }

    /// Whether the words have the ids that they should.
    pub(crate) fn is_numbered(&self) -> bool {
        self.known.values().map(|(id, _)| *id).eq((FIRST..).take(self.known.len()))
    }

    /// Returns the ids of a text, cut to `most`; a task about the subject sees none of the words that tell it.
    pub(crate) fn ids(&self, task: Task, text: &str, most: usize) -> Vec<u32> {
        let id = |word: String| match (self.known.get(&word), task) {
            (Some((id, true)), _) | (Some((id, false)), Task::Pair) => *id,
            (None, Task::Pair) => UNKNOWN,
            _ => HIDDEN,
        };
        let mut ids: Vec<_> = split(text).map(id).collect();
        // How many words were hidden would tell something too.
        ids.dedup_by(|a, b| *a == HIDDEN && *b == HIDDEN);
        ids.truncate(most);
        ids
    }
}

/// Divides a text at everything that is neither a letter, a digit nor an underscore.
fn split(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multitask::lines::Group;

    fn line(task: Task, subject: &str, text: &str) -> Line {
        let group = Group { subject: subject.to_owned(), images: vec!["1".to_owned()] };
        Line { task, groups: vec![group], text: text.to_owned() }
    }

    #[test]
    fn words_that_tell_subjects_apart_are_hidden_from_the_tasks_that_ask_for_them() {
        let lines = [
            line(Task::Single, "cat", "A photo of a cat"),
            line(Task::Single, "bear", "a photo of a <bear> plush toy"),
            line(Task::Subject, "cup", "a photo of a cup"),
            line(Task::Pair, "cup", "a cup beside the cat"),
        ];
        let words = Words::of(&lines.iter().collect::<Vec<_>>());
        // a bear beside cat cup of photo plush the toy
        assert_eq!(words.n_ids(), 3 + 10);
        let [a, of, photo] = [3, 8, 9];
        for task in [Task::Single, Task::Subject] {
            let cat = words.ids(task, "a photo of a cat", 9);
            assert_eq!(cat, [a, photo, of, a, HIDDEN]);
            assert_eq!(words.ids(task, "A photo, of a <bear> plush toy!", 9), cat);
            assert_eq!(words.ids(task, "a photo of a dragon", 9), cat);
        }
        assert_eq!(words.ids(Task::Pair, "a photo of the cat", 9), [a, photo, of, 11, 6]);
        assert_eq!(words.ids(Task::Pair, "a dragon, a cat", 3), [a, UNKNOWN, a]);
    }
}
