//! What a trained model takes, and what it gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lines::Asks;
use super::sample::Sample;
use super::sizes::{Fit, Sizes, narrow};
use super::tasks::{Task, number};
use super::words::Words;

/// The images and words that a model takes, and the answers of its tasks.
///
/// Kept beside a run's checkpoints, because these hold neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Side in pixels of the squares that all images become, or the longest one of those that keep their shapes.
    image_size: u32,
    /// Whether images keep their shapes; those of models did not before there was a choice.
    #[serde(default)]
    own_sizes: bool,
    /// The most words of a text that are read.
    max_words: u32,
    /// The tasks, in the order of the model's heads.
    tasks: Vec<Task>,
    words: Words,
    /// The most frequent text of each task, as token ids.
    texts: Vec<Vec<u32>>,
}

impl Signature {
    pub(super) fn new(sizes: &Sizes, tasks: &[Task], words: Words, samples: &[Sample]) -> Self {
        let texts = (0..).zip(tasks).map(|(task, _)| most_frequent(samples, task)).collect();
        let Fit { side: image_size, keeps_shape: own_sizes } = sizes.image;
        Self { image_size, own_sizes, max_words: narrow(sizes.words), tasks: tasks.to_vec(), words, texts }
    }

    /// Reads what [`Self::to_json`] has written.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let signature: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let most = signature.max_words as usize;
        if let Some(Task { name, answers, .. }) = signature.tasks.iter().find(|it| it.answers.len() < 2) {
            return Err(format!("`answers` of task `{name}` has {}, at least 2 are told apart", answers.len()));
        }
        if signature.image_size == 0 || most == 0 || signature.tasks.is_empty() {
            return Err("`image_size`, `max_words` or `tasks` is empty".to_owned());
        }
        let is_known = |text: &Vec<u32>| text.len() <= most && text.iter().all(|id| signature.words.has(*id));
        let has_texts = signature.texts.len() == signature.tasks.len();
        if !has_texts || !signature.words.is_numbered() || !signature.texts.iter().all(is_known) {
            return Err("the numbers of `words` and `texts` do not belong together".to_owned());
        }
        Ok(signature)
    }

    /// Writes it as JSON.
    pub fn to_json(&self) -> String {
        // There is nothing in it that JSON has no word for.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the answers of a task, in the order of the model's outputs.
    ///
    /// # Panics
    ///
    /// When there is no such task.
    pub fn answers(&self, task: u16) -> Vec<&str> {
        self.tasks[usize::from(task)].answers.iter().map(String::as_str).collect()
    }

    /// Returns the task that a single image is a sample of, if there is one.
    pub(super) fn task_of_image(&self) -> Option<u16> {
        (0..).zip(&self.tasks).find(|(_, task)| task.asks != Asks::Order).map(|(at, _)| at)
    }

    /// Returns the number of a task of this name, and what it asks.
    pub(super) fn task(&self, name: &str) -> Result<(u16, Asks), String> {
        let known = || self.tasks.iter().map(|it| format!("`{}`", it.name)).collect::<Vec<_>>().join(", ");
        let at = number(&self.tasks, name)
            .ok_or_else(|| format!("the model has not learnt task `{name}`, but {}", known()))?;
        Ok((at, self.tasks[usize::from(at)].asks))
    }

    /// Returns the ids of a text, or of what is said most often where there is none.
    pub(super) fn tokens(&self, task: u16, text: Option<&str>) -> Vec<u32> {
        let at = usize::from(task);
        match text {
            Some(text) => self.words.ids(self.tasks[at].asks, text, self.max_words as usize),
            None => self.texts[at].clone(),
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        let image = Fit { side: self.image_size, keeps_shape: self.own_sizes };
        let (words, outputs) = (self.max_words as usize, self.tasks.iter().map(|it| it.answers.len()).collect());
        Sizes { image, words, outputs }
    }

    pub(super) fn n_words(&self) -> usize {
        self.words.n_ids()
    }
}

/// Returns the text of most training samples of a task, the first of equals.
fn most_frequent(samples: &[Sample], task: u16) -> Vec<u32> {
    let mut counts: BTreeMap<&[u32], usize> = BTreeMap::new();
    for sample in samples.iter().filter(|it| it.task == task) {
        *counts.entry(&sample.tokens).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, n)| *n).map_or_else(Vec::new, |(text, _)| text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Room;
    use crate::multitask::{Samples, SamplesConfig};

    #[test]
    fn what_is_written_is_read_and_what_was_spoilt_is_refused() {
        let store = tempfile::tempdir().unwrap();
        let config = SamplesConfig::new(plimsoll_fixtures::dir().join("multitask"), Room::boundless(store.path()));
        let samples = Samples::read(&config).unwrap();
        let signature = samples.signature();
        assert_eq!(signature.sizes(), samples.sizes());
        let json = signature.to_json();
        assert_eq!(Signature::from_json(&json), Ok(signature.clone()));
        let spoilt = |change: &dyn Fn(&mut Signature)| {
            let mut signature = signature.clone();
            change(&mut signature);
            Signature::from_json(&signature.to_json()).unwrap_err()
        };
        assert!(spoilt(&|it| it.tasks[1].answers.truncate(1)).contains("`answers` of task `subject` has 1"));
        assert!(spoilt(&|it| it.tasks.clear()).contains("`tasks`"));
        assert!(spoilt(&|it| it.max_words = 0).contains("`max_words`"));
        assert!(spoilt(&|it| it.texts.clear()).contains("belong together"));
        assert!(spoilt(&|it| it.texts[0] = vec![9999]).contains("belong together"));
        assert!(spoilt(&|it| it.texts[0] = vec![1; 99]).contains("belong together"));
        assert!(Signature::from_json("{}").unwrap_err().contains("missing field"));
        let older = json.replace("\"own_sizes\": false,", "");
        assert_eq!((older.len() < json.len(), Signature::from_json(&older)), (true, Ok(signature)));
    }
}
