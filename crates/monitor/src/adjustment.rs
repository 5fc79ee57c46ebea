//! What a policy changed.

use std::fmt;

use plimsoll_types::Knobs;
use serde::{Deserialize, Serialize};

use crate::history::{History, Move};
use crate::text::unit_of_length;

/// A change of the knobs or batch sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// The step that had just ended or failed.
    pub step: u64,
    /// What was used until then.
    pub from: Setting,
    /// What was used from then on.
    pub to: Setting,
    /// Why.
    pub reason: String,
}

/// What a policy turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// The knobs.
    Knobs(Knobs),
    /// The largest micro-batch of each edge, in the order of the edges.
    Sizes(Vec<u32>),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knobs(knobs) => knobs.fmt(f),
            Self::Sizes(of_edges) => write!(f, "batches of {}", sizes(of_edges)),
        }
    }
}

impl Adjustment {
    /// Returns what changed, its old value and its new one: a row of a table, whatever one adjustment changes.
    pub(crate) fn change(&self, unit: &str, n_axes: u64) -> [String; 3] {
        let (from, to) = match (&self.from, &self.to) {
            (Setting::Knobs(from), Setting::Knobs(to)) => (from, to),
            (Setting::Sizes(from), Setting::Sizes(to)) if from.len() == to.len() => {
                return resized(from, to, unit, n_axes);
            }
            (from, to) => return ["micro_batch_size".to_owned(), from.to_string(), to.to_string()],
        };
        let knobs = [
            ("patch_size", from.patch_size, to.patch_size),
            ("micro_batch_size", from.micro_batch_size, to.micro_batch_size),
        ];
        let changed: Vec<_> = knobs.into_iter().filter(|(_, from, to)| from != to).collect();
        let joined = |of: fn(&(&str, u32, u32)) -> String| changed.iter().map(of).collect::<Vec<_>>().join(", ");
        [joined(|it| it.0.to_owned()), joined(|it| it.1.to_string()), joined(|it| it.2.to_string())]
    }
}

/// Returns the same of the lengths, or of the cells of several axes, whose size changed: where these are some of many, the
/// others would hide them.
fn resized(from: &[u32], to: &[u32], unit: &str, n_axes: u64) -> [String; 3] {
    let (old, new): (Vec<u32>, Vec<u32>) = from.iter().zip(to).filter(|(from, to)| from != to).unzip();
    let (n, all, unit) = (old.len(), from.len(), unit_of_length(unit));
    let (one, many) = if 1 < n_axes { ("cell", "cells") } else { ("length", "lengths") };
    let of = if n == all { format!("by {one} in {unit}") } else { format!("of {n} of {all} {many} in {unit}") };
    [format!("micro_batch_size {of}"), Setting::Sizes(old).to_string(), Setting::Sizes(new).to_string()]
}

/// Sizes of which each is named.
const NAMED: usize = 6;

/// Writes the batch size of each edge: all of a few, the range of many.
pub(crate) fn sizes(sizes: &[u32]) -> String {
    match (sizes.iter().min(), sizes.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("{most}"),
        (Some(least), Some(most)) if NAMED < sizes.len() => {
            format!("{most} of the smallest to {least} of the largest")
        }
        _ => sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    }
}

pub(crate) fn adjustments(history: &History) -> Vec<Adjustment> {
    let adjustment = |(step, it): &(u64, Move)| {
        let (from, to) = match it {
            Move::Knobs(change) => (Setting::Knobs(change.from), Setting::Knobs(change.to)),
            Move::Sizes(resize) => (Setting::Sizes(resize.from.clone()), Setting::Sizes(resize.to.clone())),
        };
        Adjustment { step: *step, from, to, reason: it.reason().to_string() }
    };
    history.incidents.moves.iter().map(adjustment).collect()
}
