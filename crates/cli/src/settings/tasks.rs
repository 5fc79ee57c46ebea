//! What is configured of tasks and sources, held against those that there are.

use plimsoll_sampler::{MixCursor, PlanError, SamplerError, StreamError, TaskMix, temperature_shares};
use plimsoll_train::{Index, Job, Lengths, Source};

use super::Settings;
use crate::exit::{UserError, user_error};
use crate::values::{BalanceKind, EpochEnds, JobName};

/// What the samples of a job may have shares of.
pub(crate) struct Mixed {
    what: &'static str,
    names: Vec<String>,
    /// Samples of each.
    sizes: Vec<u64>,
    /// The lengths, where they are known.
    index: Option<Index>,
}

impl Mixed {
    /// Looks at a job's tasks, or at its sources where it has no tasks or is streamed.
    pub(crate) fn of<J: Job>(job: &J) -> Self {
        let (source, tasks) = (job.source(), job.tasks());
        let lengths = source.lengths();
        let (index, is_streamed) = (lengths.index(), matches!(lengths, Lengths::Streamed { .. }));
        if tasks.is_empty() || is_streamed {
            let (names, sizes) = source.sources().iter().map(|it| (it.name.clone(), it.n_samples)).unzip();
            return Self { what: "sources", names, sizes, index };
        }
        let mut sizes = vec![0; tasks.len()];
        let of_samples = index.as_ref().and_then(Index::tasks).into_iter().flatten();
        of_samples.for_each(|task| sizes.get_mut(usize::from(*task)).into_iter().for_each(|size| *size += 1));
        Self { what: "tasks", names: tasks.to_vec(), sizes, index }
    }

    fn for_each(&self) -> String {
        format!("for each of {} {} ({})", self.names.len(), self.what, self.names.join(", "))
    }

    fn check(&self, mix: &TaskMix) -> Result<(), SamplerError> {
        match &self.index {
            Some(index) => index.check_tasks(mix.clone()),
            None => Ok(MixCursor::try_new(mix, &self.sizes, 0).map(drop)?),
        }
    }

    /// Says what shares are right, where these are not.
    fn allowed(&self, error: &SamplerError) -> String {
        let above_0 = |number: usize| {
            let name = self.names.get(number).map_or("one", String::as_str);
            format!("a number above 0 for `{name}`, which has {} samples", self.sizes.get(number).unwrap_or(&0))
        };
        match error {
            SamplerError::Plan(error) | SamplerError::Stream(StreamError::Plan(error)) => match error {
                PlanError::ShareCount { .. } => format!("a number {}, or \"default\"", self.for_each()),
                PlanError::Share { task, .. } => above_0(*task),
                PlanError::ShareSum { sum } => {
                    format!("a sum of 1, and not {sum}, unless `tasks.normalize_shares` is true")
                }
                other => other.to_string(),
            },
            SamplerError::Stream(StreamError::EmptySource { number }) => {
                format!("0 for `{}`, which has no samples to train on", self.names[*number])
            }
            other => other.to_string(),
        }
    }
}

impl Settings {
    /// Refuses weights of other tasks than these, and those that would not count.
    pub(crate) fn check_weights(&self, names: &[String]) -> Result<(), UserError> {
        let Some(weights) = &self.tasks.weights.0 else { return Ok(()) };
        let refused = |allowed: &str| {
            let weights = weights.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(refused("weights", &format!("\"{weights}\""), allowed))
        };
        if self.tasks.balance == BalanceKind::GradNorm {
            return refused("\"default\" where `tasks.balance` is \"gradnorm\", which finds them");
        }
        if weights.len() == names.len() && weights.iter().all(|it| 0.0 < *it) {
            return Ok(());
        }
        let (n, names) = (names.len(), names.join(", "));
        refused(&format!("a number above 0 for each of {n} tasks ({names}), or \"default\""))
    }

    /// Gives tasks or sources the shares that are asked for: by numbers, or by `tasks.temperature`, which is 1 where
    /// `tasks.ends` alone asks for some.
    pub(crate) fn mix(&self, mixed: &Mixed, mix: &mut TaskMix) -> Result<(), UserError> {
        let (shares, temperature, ends) = (&self.tasks.shares, self.tasks.temperature, self.tasks.ends);
        let is_own = (temperature - 1.0).abs() < f64::EPSILON;
        let (key, value, usual) = match (shares.is_default(), is_own, ends) {
            (true, true, EpochEnds::AllOnce) => return Ok(()),
            (false, ..) => ("shares", format!("\"{shares}\""), "\"default\""),
            (true, false, _) => ("temperature", temperature.to_string(), "1"),
            (true, true, _) => ("ends", format!("\"{}\"", ends.word()), "\"all-once\""),
        };
        if mixed.names.len() < 2 {
            return Err(refused(
                key,
                &value,
                &format!(
                    "{usual} for samples of one task and one source, and for tasks that are streamed{}",
                    self.more_sources()
                ),
            ));
        }
        if !shares.is_default() && !is_own {
            return Err(refused("temperature", &temperature.to_string(), "1 where `tasks.shares` are given"));
        }
        let wanted = if shares.is_default() {
            let sizes: Vec<_> = mixed.sizes.iter().map(|it| usize::try_from(*it).unwrap_or(usize::MAX)).collect();
            temperature_shares(&sizes, temperature).map_err(|error| error.to_string())
        } else {
            let allowed = |which| format!("a number {}, or \"default\": {which}", mixed.for_each());
            shares.of(&mixed.names).map_err(allowed)
        };
        mix.shares = Some(wanted.map_err(|allowed| refused(key, &value, &allowed))?);
        mixed.check(mix).map_err(|error| refused(key, &value, &mixed.allowed(&error)))
    }

    /// Whether tasks or sources have shares that are not those of the data.
    pub(super) fn mixes_sources(&self) -> bool {
        let (shares, temperature) = (&self.tasks.shares, self.tasks.temperature);
        !shares.is_default() || f64::EPSILON <= (temperature - 1.0).abs() || self.tasks.ends != EpochEnds::AllOnce
    }

    /// Says how the samples come to have several sources, where they may.
    fn more_sources(&self) -> &'static str {
        match (self.job, self.data.source_column.is_empty()) {
            (JobName::Sequence, true) => {
                "; `data.source_column` names the column of `labels.csv` that tells sources apart"
            }
            _ => "",
        }
    }
}

fn refused(key: &str, value: &str, allowed: &str) -> UserError {
    user_error(format!("use the configuration: `tasks.{key}` is {value}, allowed is {allowed}"))
}
