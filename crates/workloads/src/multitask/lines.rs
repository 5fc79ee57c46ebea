//! The lines of `samples.jsonl`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The list of samples in their folder.
pub(crate) const LIST: &str = "samples.jsonl";

/// What a task asks of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Which subject the images show.
    Subject,
    /// Which of the task's labels the images have.
    Label,
    /// Whether two groups of images are shown in the order of the text.
    Order,
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subject => "which subject is shown",
            Self::Label => "which `label` it is",
            Self::Order => "in which order two subjects are shown",
        })
    }
}

/// A line, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The name of its task.
    pub(crate) task: String,
    pub(crate) asks: Asks,
    /// One group, or the two whose order is asked for.
    pub(crate) groups: Vec<Group>,
    /// The answer where it is no subject.
    pub(crate) label: Option<String>,
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
    label: Option<String>,
    text: String,
}

/// A line that asks: a sample without subjects and perhaps without text.
#[derive(Deserialize)]
#[serde(expecting = "an object with `task` and `images`")]
pub(crate) struct Asked {
    /// The name of its task.
    pub(crate) task: String,
    images: Vec<String>,
    counts: Option<Vec<usize>>,
    pub(crate) text: Option<String>,
}

/// Understands a line, or says what is wrong with it.
pub(crate) fn parse(line: &[u8]) -> Result<Line, String> {
    let Raw { task, subjects, images, counts, label, text } = object(line)?;
    if task.trim().is_empty() {
        return Err("its `task` is empty".to_owned());
    }
    let asks = match (subjects.len(), &label) {
        (1, None) => Asks::Subject,
        (1, Some(label)) if !label.trim().is_empty() => Asks::Label,
        (1, Some(_)) => return Err("its `label` is empty".to_owned()),
        (2, None) => Asks::Order,
        (2, Some(_)) => {
            return Err("a sample of two `subjects` asks for their order, and has no `label`".to_owned());
        }
        (n, _) => return Err(format!("a sample has 1 in `subjects`, or 2 whose order is asked for, not {n}")),
    };
    let groups = grouped(asks, images, counts)?;
    let groups = subjects.into_iter().zip(groups).map(|(subject, images)| Group { subject, images }).collect();
    Ok(Line { task, asks, groups, label, text })
}

/// Understands a line that asks, or says what is wrong with it.
pub(crate) fn ask(line: &[u8]) -> Result<Asked, String> {
    object(line)
}

impl Asked {
    /// Returns the paths of its images, in one group or in two.
    pub(crate) fn groups(&self, asks: Asks) -> Result<Vec<Vec<String>>, String> {
        grouped(asks, self.images.clone(), self.counts.clone())
    }
}

fn object<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Divides the images of a sample into its groups.
fn grouped(asks: Asks, images: Vec<String>, counts: Option<Vec<usize>>) -> Result<Vec<Vec<String>>, String> {
    let (n_groups, n_images) = (if asks == Asks::Order { 2 } else { 1 }, images.len());
    let counts = counts.filter(|_| asks == Asks::Order).unwrap_or_else(|| vec![n_images]);
    let sum = counts.iter().try_fold(0, |sum: usize, n| sum.checked_add(*n));
    if counts.len() != n_groups || sum != Some(n_images) || counts.contains(&0) {
        return Err(format!("`counts` divides {n_images} images into {counts:?}, not into {n_groups} groups"));
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
        let (task, text) = ("pair".to_owned(), "a by b".to_owned());
        assert_eq!(parse(line.as_bytes()).unwrap(), Line { task, asks: Asks::Order, groups, label: None, text });
    }

    #[test]
    fn what_makes_no_sample_is_refused_with_the_reason() {
        refused(r#"{"task":"pair","#, "EOF while parsing");
        refused(r#"{"task":"single","subjects":["a"],"images":["1"]}"#, "missing field `text`");
        let line = |task: &str, subjects: &str, images: &str, counts: &str| {
            format!(r#"{{"task":"{task}","subjects":[{subjects}],"images":[{images}],{counts}"text":""}}"#)
        };
        refused(&line(" ", r#""a""#, r#""1""#, ""), "its `task` is empty");
        refused(
            &line("who", r#""a","b","c""#, r#""1""#, ""),
            "has 1 in `subjects`, or 2 whose order is asked for, not 3",
        );
        refused(&line("who", r#""a""#, "", ""), "divides 0 images into [0], not into 1 groups");
        refused(&line("mood", r#""a""#, r#""1""#, r#""label":"","#), "its `label` is empty");
        refused(
            &line("mood", r#""a","b""#, r#""1","2""#, r#""label":"x","#),
            "asks for their order, and has no `label`",
        );
        refused(&line("pair", r#""a","b""#, r#""1","2""#, ""), "divides 2 images into [2], not into 2 groups");
        refused(&line("pair", r#""a","b""#, r#""1","2""#, r#""counts":[2,1],"#), "divides 2 images into [2, 1]");
        refused(&line("pair", r#""a","b""#, r#""1","2""#, r#""counts":[2,0],"#), "divides 2 images into [2, 0]");
        // Two counts whose sum does not fit into a number, and comes out right where it wraps.
        let counts = format!(r#""counts":[{},3],"#, usize::MAX);
        refused(&line("pair", r#""a","b""#, r#""1","2""#, &counts), "divides 2 images into [18446744073709551615, 3]");
        assert!(parse(b"\xff{}").unwrap_err().contains("invalid utf-8"));
    }
}
