//! How much of a run came from each source.

use plimsoll_types::{MicroBatch, NamedSource};
use serde::{Deserialize, Serialize};

use crate::text::share;

/// What a run has drawn from one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Name of the source.
    pub name: String,
    /// Samples of the committed steps.
    pub samples: u64,
    /// Their part of the samples of all sources, from 0 to 1.
    pub share: Option<f64>,
}

/// What a run has drawn from its sources, which have ids one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SourceSums {
    names: Vec<String>,
    /// Where the ids of each source end.
    ends: Vec<u64>,
    samples: Vec<u64>,
}

impl SourceSums {
    pub(crate) fn of(sources: &[NamedSource]) -> Self {
        let end = |end: &mut u64, it: &NamedSource| {
            *end = end.saturating_add(it.n_samples);
            Some(*end)
        };
        let ends = sources.iter().scan(0, end).collect();
        Self { names: sources.iter().map(|it| it.name.clone()).collect(), ends, samples: vec![0; sources.len()] }
    }

    /// Takes in a committed step.
    pub(crate) fn hear(&mut self, micro_batches: &[MicroBatch]) {
        for id in micro_batches.iter().flat_map(|it| &it.ids) {
            let source = self.ends.partition_point(|end| end <= id);
            self.samples.get_mut(source).into_iter().for_each(|n| *n += 1);
        }
    }

    /// Sums each source up.
    pub(crate) fn reports(&self) -> Vec<SourceReport> {
        let n: u64 = self.samples.iter().sum();
        let report = |(name, samples): (&String, &u64)| SourceReport {
            name: name.clone(),
            samples: *samples,
            share: (0 < n).then_some(*samples as f64 / n as f64),
        };
        self.names.iter().zip(&self.samples).map(report).collect()
    }
}

/// Writes what came from each source in one line.
pub(crate) fn sources_line(sources: &[SourceReport]) -> String {
    let told = |it: &SourceReport| {
        let share = it.share.map_or_else(String::new, |it| format!(" ({})", share(it)));
        format!("{} {}{share}", it.name, it.samples)
    };
    sources.iter().map(told).collect::<Vec<_>>().join(", ")
}
