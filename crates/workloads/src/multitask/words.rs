//! Texts as token ids: a word is a token.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::lines::{Asks, Line};

/// Pads a text.
pub(crate) const PADDING: u32 = 0;
/// A word that no training text has.
const UNKNOWN: u32 = 1;
/// One or more words that would tell which subject is shown.
const HIDDEN: u32 = 2;
/// The first id of a known word.
const FIRST: u32 = 3;

/// The answers to what is asked, and to which of them the texts have each word.
#[derive(Default)]
struct Answers<'a> {
    all: BTreeSet<&'a str>,
    of_words: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Answers<'a> {
    fn note(&mut self, answer: &'a str, text: &str) {
        self.all.insert(answer);
        split(text).for_each(|word| _ = self.of_words.entry(word).or_default().insert(answer));
    }

    /// Returns the share of the answers whose texts have a word, where any has.
    fn share(&self, word: &str) -> Option<f64> {
        self.of_words.get(word).map(|it| it.len() as f64 / self.all.len() as f64)
    }
}

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
    /// A word is common if the texts of at least half of the answers have it, of whatever is asked; what tells answers apart
    /// is not.
    pub(crate) fn of(lines: &[&Line]) -> Self {
        let (mut all, mut asked) = (BTreeSet::new(), BTreeMap::<_, Answers<'_>>::new());
        for line in lines {
            // All tasks that ask for subjects have the same answers.
            let asked = match (line.asks, &line.label) {
                (Asks::Subject, _) => Some((asked.entry("").or_default(), line.groups[0].subject.as_str())),
                (Asks::Label, Some(label)) => Some((asked.entry(line.task.as_str()).or_default(), label.as_str())),
                (Asks::Label | Asks::Order, _) => None,
            };
            all.extend(split(&line.text));
            if let Some((answers, answer)) = asked {
                answers.note(answer, &line.text);
            }
        }
        let is_common = |word: &str| {
            let mut shares = asked.values().filter_map(|it| it.share(word)).peekable();
            shares.peek().is_some() && shares.all(|share| 0.5 <= share)
        };
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

    /// Returns the ids of a text, cut to `most`; only where the order is asked for are words seen that tell answers apart.
    pub(crate) fn ids(&self, asks: Asks, text: &str, most: usize) -> Vec<u32> {
        let id = |word: String| match (self.known.get(&word), asks) {
            (Some((id, true)), _) | (Some((id, false)), Asks::Order) => *id,
            (None, Asks::Order) => UNKNOWN,
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

    fn line(asks: Asks, subject: &str, text: &str) -> Line {
        let group = Group { subject: subject.to_owned(), images: vec!["1".to_owned()] };
        let label = (asks == Asks::Label).then(|| subject.to_owned());
        Line { task: format!("{asks:?}"), asks, groups: vec![group], label, text: text.to_owned() }
    }

    #[test]
    fn words_that_tell_subjects_apart_are_hidden_from_the_tasks_that_ask_for_them() {
        let lines = [
            line(Asks::Subject, "cat", "A photo of a cat"),
            line(Asks::Subject, "bear", "a photo of a <bear> plush toy"),
            line(Asks::Subject, "cup", "a photo of a cup"),
            line(Asks::Order, "cup", "a cup beside the cat"),
        ];
        let words = Words::of(&lines.iter().collect::<Vec<_>>());
        // a bear beside cat cup of photo plush the toy
        assert_eq!(words.n_ids(), 3 + 10);
        let [a, of, photo] = [3, 8, 9];
        for asks in [Asks::Subject, Asks::Label] {
            let cat = words.ids(asks, "a photo of a cat", 9);
            assert_eq!(cat, [a, photo, of, a, HIDDEN]);
            assert_eq!(words.ids(asks, "A photo, of a <bear> plush toy!", 9), cat);
            assert_eq!(words.ids(asks, "a photo of a dragon", 9), cat);
        }
        assert_eq!(words.ids(Asks::Order, "a photo of the cat", 9), [a, photo, of, 11, 6]);
        assert_eq!(words.ids(Asks::Order, "a dragon, a cat", 3), [a, UNKNOWN, a]);
    }

    #[test]
    fn a_word_that_tells_labels_apart_is_hidden_though_every_subject_has_it() {
        let lines = [
            line(Asks::Subject, "cat", "a small cat"),
            line(Asks::Subject, "bear", "a small bear"),
            line(Asks::Label, "small", "a small one"),
            line(Asks::Label, "large", "a one"),
            line(Asks::Label, "huge", "a one"),
        ];
        let words = Words::of(&lines.iter().collect::<Vec<_>>());
        let [hidden, one] = ["small", "one"].map(|word| words.ids(Asks::Label, word, 9));
        assert!(hidden == [HIDDEN] && one != [HIDDEN], "{hidden:?} {one:?}");
    }
}
