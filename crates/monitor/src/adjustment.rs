//! What a policy changed.

use std::fmt;

use plimsoll_types::Knobs;
use serde::{Deserialize, Serialize};

use crate::run::{Move, Run};

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
            Self::Sizes(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
                write!(f, "batches {}", sizes.join(", "))
            }
        }
    }
}

pub(crate) fn adjustments(run: &Run<'_>) -> Vec<Adjustment> {
    let adjustment = |(step, it): (u64, Move<'_>)| {
        let (from, to) = match it {
            Move::Knobs(change) => (Setting::Knobs(change.from), Setting::Knobs(change.to)),
            Move::Sizes(resize) => (Setting::Sizes(resize.from.clone()), Setting::Sizes(resize.to.clone())),
        };
        Adjustment { step, from, to, reason: it.reason().to_string() }
    };
    run.moves().map(adjustment).collect()
}
