//! What a validation or the test measured.

use serde::{Deserialize, Serialize};

use crate::{Bytes, null_as_nan};

/// A validation, or the test at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// Steps that the model which was measured has done.
    pub step: u64,
    /// Name of the metric, with its unit.
    pub metric_name: String,
    /// The metric on the set that is held out for it.
    #[serde(deserialize_with = "null_as_nan")]
    pub metric: f64,
    /// The baseline's metric on the same items.
    #[serde(deserialize_with = "null_as_nan")]
    pub baseline: f64,
    /// Which values are good; logs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// What part of the set was measured; all of it where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ItemsMeasured>,
    /// What else was measured of the same items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NamedMetric>,
    /// The metric of each task, where the samples have any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<NamedMetric>,
    /// High-water mark meanwhile.
    pub peak: Bytes,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// Which values of a metric are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// High ones, such as those of an accuracy.
    Highest,
    /// Low ones, such as those of a loss.
    Lowest,
}

impl Goal {
    /// Whether one value is better than another; one that is no finite number never is, and any other beats it.
    pub fn prefers(self, value: f64, to: f64) -> bool {
        let beats = match self {
            Self::Highest => to < value,
            Self::Lowest => value < to,
        };
        value.is_finite() && (beats || !to.is_finite())
    }
}

/// A part of a set that is held out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemsMeasured {
    /// Items that were measured.
    pub n: u64,
    /// Items that there are.
    pub of: u64,
}

/// A metric beside the main one: that of a task, or another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedMetric {
    /// Its name, with its unit.
    pub metric_name: String,
    /// The metric.
    #[serde(deserialize_with = "null_as_nan")]
    pub metric: f64,
    /// The baseline's on the same items.
    #[serde(deserialize_with = "null_as_nan")]
    pub baseline: f64,
}
