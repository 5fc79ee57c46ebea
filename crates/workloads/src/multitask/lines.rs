//! The lines of `samples.jsonl`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a sample asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Which subject one image shows.
    Single,
    /// Which subject several images show.
    Subject,
    /// Whether two groups of images are shown in the order of the text.
    Pair,
}

impl Task {
    /// All tasks, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Single, Self::Subject, Self::Pair];

    /// Returns the name in `samples.jsonl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Subject => "subject",
            Self::Pair => "pair",
        }
    }

    fn of_name(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|task| format!("`{task}`")).join(", ");
        Self::ALL
            .into_iter()
            .find(|task| task.name() == name)
            .ok_or_else(|| format!("`{name}` is no task, the tasks are {}", known()))
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A line, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) task: Task,
    /// One group, or the two of a pair.
    pub(crate) groups: Vec<Group>,
    pub(crate) text: String,
}

/// Images of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) subject: String,
    /// Paths below the folder.
    pub(crate) images: Vec<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `task`, `subjects`, `images` and `text`")]
struct Raw {
    task: String,
    subjects: Vec<String>,
    images: Vec<String>,
    counts: Option<Vec<usize>>,
    text: String,
}

/// A line that asks, checked.
pub(crate) struct Asked {
    pub(crate) task: Task,
    /// Paths of images, in one group or in the two of a pair.
    pub(crate) groups: Vec<Vec<String>>,
    pub(crate) text: Option<String>,
}

/// A sample without subjects and perhaps without text.
#[derive(Deserialize)]
#[serde(expecting = "an object with `task` and `images`")]
struct RawAsked {
    task: String,
    images: Vec<String>,
    counts: Option<Vec<usize>>,
    text: Option<String>,
}

/// Understands a line, or says what is wrong with it.
pub(crate) fn parse(line: &[u8]) -> Result<Line, String> {
    let raw: Raw = object(line)?;
    let task = Task::of_name(&raw.task)?;
    let (n_subjects, wanted) = (raw.subjects.len(), n_groups(task));
    if n_subjects != wanted {
        return Err(format!("a sample of task `{task}` has {wanted} in `subjects`, not {n_subjects}"));
    }
    let groups = grouped(task, raw.images, raw.counts)?;
    let groups = raw.subjects.into_iter().zip(groups).map(|(subject, images)| Group { subject, images }).collect();
    Ok(Line { task, groups, text: raw.text })
}

/// Understands a line that asks, or says what is wrong with it.
pub(crate) fn ask(line: &[u8]) -> Result<Asked, String> {
    let raw: RawAsked = object(line)?;
    let task = Task::of_name(&raw.task)?;
    Ok(Asked { task, groups: grouped(task, raw.images, raw.counts)?, text: raw.text })
}

fn object<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn n_groups(task: Task) -> usize {
    if task == Task::Pair { 2 } else { 1 }
}

/// Divides the images of a sample into its groups.
fn grouped(task: Task, images: Vec<String>, counts: Option<Vec<usize>>) -> Result<Vec<Vec<String>>, String> {
    let (n_groups, n_images) = (n_groups(task), images.len());
    let counts = counts.filter(|_| task == Task::Pair).unwrap_or_else(|| vec![n_images]);
    let sum = counts.iter().try_fold(0, |sum: usize, n| sum.checked_add(*n));
    if counts.len() != n_groups || sum != Some(n_images) || counts.contains(&0) {
        return Err(format!("`counts` divides {n_images} images into {counts:?}, not into {n_groups} groups"));
    }
    if task == Task::Single && n_images != 1 {
        return Err(format!("a sample of task `single` has 1 in `images`, not {n_images}"));
    }
    let mut images = images.into_iter();
    Ok(counts.into_iter().map(|n| images.by_ref().take(n).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(line: &str, reason: &str) {
        let error = parse(line.as_bytes()).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn a_pair_is_divided_by_its_counts() {
        let line =
            r#"{"task":"pair","subjects":["a","b"],"images":["1","2","3"],"counts":[2,1],"text":"a by b","id":"7"}"#;
        let group = |subject: &str, images: &[&str]| Group {
            subject: subject.to_owned(),
            images: images.iter().map(|it| (*it).to_owned()).collect(),
        };
        let groups = vec![group("a", &["1", "2"]), group("b", &["3"])];
        assert_eq!(parse(line.as_bytes()).unwrap(), Line { task: Task::Pair, groups, text: "a by b".to_owned() });
    }

    #[test]
    fn what_makes_no_sample_is_refused_with_the_reason() {
        refused(r#"{"task":"pair","#, "EOF while parsing");
        refused(r#"{"task":"single","subjects":["a"],"images":["1"]}"#, "missing field `text`");
        let line = |task: &str, subjects: &str, images: &str, counts: &str| {
            format!(r#"{{"task":"{task}","subjects":[{subjects}],"images":[{images}],{counts}"text":""}}"#)
        };
        refused(
            &line("triple", r#""a""#, r#""1""#, ""),
            "`triple` is no task, the tasks are `single`, `subject`, `pair`",
        );
        refused(&line("subject", r#""a","b""#, r#""1""#, ""), "`subject` has 1 in `subjects`, not 2");
        refused(&line("subject", r#""a""#, "", ""), "divides 0 images into [0], not into 1 groups");
        refused(&line("single", r#""a""#, r#""1","2""#, ""), "`single` has 1 in `images`, not 2");
        refused(&line("pair", r#""a","b""#, r#""1","2""#, ""), "divides 2 images into [2], not into 2 groups");
        refused(&line("pair", r#""a","b""#, r#""1","2""#, r#""counts":[2,1],"#), "divides 2 images into [2, 1]");
        refused(&line("pair", r#""a","b""#, r#""1","2""#, r#""counts":[2,0],"#), "divides 2 images into [2, 0]");
        // Two counts whose sum does not fit into a number, and comes out right where it wraps.
        let counts = format!(r#""counts":[{},3],"#, usize::MAX);
        refused(&line("pair", r#""a","b""#, r#""1","2""#, &counts), "divides 2 images into [18446744073709551615, 3]");
        assert!(parse(b"\xff{}").unwrap_err().contains("invalid utf-8"));
    }
}
