//! Shares of tasks or sources.

use std::fmt;

use serde::Deserialize;

use super::{MOST_WEIGHT, weight};

/// A number for each task or source, in their order or by their names, or `"default"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct SharesSetting {
    text: String,
    /// Each with its name, where it has one.
    numbers: Vec<(Option<String>, f64)>,
}

impl SharesSetting {
    pub(crate) const fn is_default(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the numbers in the order of the names that there are, or says which of those that are given are none of them, or
    /// which of them is not given once.
    pub(crate) fn of(&self, names: &[String]) -> Result<Vec<f64>, String> {
        if self.numbers.iter().all(|(name, _)| name.is_none()) {
            return Ok(self.numbers.iter().map(|it| it.1).collect());
        }
        let number = |name: &String| {
            let of_name = self.numbers.iter().filter(|it| it.0.as_ref() == Some(name));
            match of_name.map(|it| it.1).collect::<Vec<_>>()[..] {
                [number] => Ok(number),
                [] => Err(format!("`{name}` has none")),
                [_, ..] => Err(format!("`{name}` has several")),
            }
        };
        let unknown = self.numbers.iter().filter_map(|it| it.0.as_ref()).find(|name| !names.contains(name));
        match unknown {
            Some(name) => Err(format!("`{name}` is none of them")),
            None => names.iter().map(number).collect(),
        }
    }
}

impl fmt::Display for SharesSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for SharesSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self { text, numbers: Vec::new() });
        }
        let share = |it: &str| match it.rsplit_once('=') {
            Some((name, share)) => Some((Some(name.trim().to_owned()), weight(share)?)),
            None => Some((None, weight(it)?)),
        };
        let numbers: Option<Vec<_>> = text.split(',').map(share).collect();
        let are_alike = |of: &Vec<(Option<String>, f64)>| of.iter().all(|it| it.0.is_some() == of[0].0.is_some());
        match numbers.filter(are_alike) {
            Some(numbers) => Ok(Self { text, numbers }),
            None => Err(format!(
                "`{text}` is neither \"default\" nor one number from 0 to {MOST_WEIGHT} for each task, as in \"0.5, 0.3, 0.2\", or \
                 for each name, as in \"books=0.7, code=0.3\""
            )),
        }
    }
}
